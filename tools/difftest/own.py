"""Configuration classes that checkpoints bring in code of their own, as far as vLLM reads them.

The oracle's stand-in for such a class keeps config.json's fields and adds none. These have
the defaults that vLLM's model classes repeat, and the nested configs by the names that they
are read by (vllm models/molmo2.py, nemotron_parse.py). model/codeclasses.tsv says the same.
"""

MOLMO2 = '''
from transformers import PretrainedConfig


def part(name, kind, **defaults):
    def init(self, **given):
        for key, value in {**defaults, **given}.items():
            if key != "model_type":
                setattr(self, key, value)
        PretrainedConfig.__init__(self, tie_word_embeddings=given.get("tie_word_embeddings", False))

    return type(name, (PretrainedConfig,), {"model_type": kind, "__init__": init})


Vit = part("Vit", "molmo2", hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16,
           num_key_value_heads=16, head_dim=72, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6,
           image_default_input_size=(378, 378), image_patch_size=14, image_num_pos=577)
Adapter = part("Adapter", "molmo2", vit_layers=(-3, -9), pooling_attention_mask=False, hidden_size=1152, num_attention_heads=16,
               num_key_value_heads=16, head_dim=72, hidden_act="silu", intermediate_size=18944, text_hidden_size=3584)
Text = part("Text", "molmo2_text", hidden_size=3584, num_attention_heads=28, num_key_value_heads=4, head_dim=128,
            vocab_size=152064, additional_vocab_size=128, qkv_bias=True, num_hidden_layers=48, intermediate_size=18944,
            hidden_act="silu", max_position_embeddings=4096, rope_theta=1000000.0, rope_scaling=None,
            rope_scaling_layers=None, use_qk_norm=False, qk_norm_type="olmo", layer_norm_eps=1e-6, norm_after=False)


class NAME(PretrainedConfig):
    model_type = "molmo2"

    def __init__(self, vit_config=None, adapter_config=None, text_config=None, **rest):
        for key, make, given in (("vit_config", Vit, vit_config), ("adapter_config", Adapter, adapter_config),
                                 ("text_config", Text, text_config)):
            setattr(self, key, make(**given) if isinstance(given, dict) else given or make())
        super().__init__(**rest)
'''

NEMOTRON_PARSE = '''
from transformers import MBartConfig, PretrainedConfig


class Decoder(MBartConfig):
    model_type = "nemotron_parse_text"


class NAME(PretrainedConfig):
    model_type = "nemotron_parse"

    def __init__(self, encoder=None, decoder=None, image_size=(2048, 1648), is_encoder_decoder=True, **rest):
        super().__init__(is_encoder_decoder=is_encoder_decoder, **rest)
        self.image_size = list(image_size)
        self.encoder = PretrainedConfig(**without_type(encoder))
        self.decoder = Decoder(**without_type(decoder))


def without_type(given):
    return {key: value for key, value in (given or {}).items() if key != "model_type"}
'''

CLASSES = {"molmo2": MOLMO2, "nemotron_parse": NEMOTRON_PARSE}


def files(config):
    """The module that stands for the class of a config, none where there is no such class."""
    ref = (config.get("auto_map") or {}).get("AutoConfig")
    if not ref or "--" in ref or config.get("model_type") not in CLASSES:
        return {}
    module, name = ref.rsplit(".", 1)
    return {module + ".py": CLASSES[config["model_type"]].replace("NAME", name)}


def on_cpu():
    """Cohere ASR reads a length back from a tensor, which has no data here: it is made on the CPU."""
    import torch

    from vllm.model_executor.models.cohere_asr import ConvSubsampling

    make, calc = ConvSubsampling.__init__, ConvSubsampling.calc_length

    def init(self, *args, feat_in, **rest):
        self.__dict__["bins"] = feat_in
        make(self, *args, feat_in=feat_in, **rest)

    def calc_length(self, lengths, **rest):
        with torch.device("cpu"):
            return calc(self, torch.tensor(self.__dict__["bins"], dtype=torch.float, device="cpu"), **rest)

    ConvSubsampling.__init__, ConvSubsampling.calc_length = init, calc_length
