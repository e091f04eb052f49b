#!/usr/bin/env python3
"""Write engine/sglang/classes.tsv, the model_types that SGLang reads and what its own
configuration classes add to a file, and engine/sglang/classtypes.tsv, the types that its
Transformers' classes hold a file's fields to where they are not those of
model/classtypes.tsv.

    python tools/facts/sglang_classes.py

Run it with the Python that has SGLang installed. A line is a model_type, a tab, and facts
separated by spaces:

    key=7           the own class's default of a field that a size depends on
    key>other       the file's name of a field
    dtype=bfloat16  the own class's dtype where the file names none
    vision=27,1152  layers and width of the vision config that the own class constructs;
                    "-" where it has no such field; "vision?=" where it constructs one only
                    when the file has it
    sub:key         a nested config that is read by its own model_type

A line "model_type.key" is of the class of the engine's own that the text config at key has.

A line of types is as in model/classtypes.tsv, or "-" for a class that holds nothing.
"""

import inspect
import logging
import os
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from sglang.srt.utils.hf_transformers.common import _CONFIG_REGISTRY  # noqa: E402
from transformers import AutoConfig  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402

import classes as transformers_classes  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

FIELDS = """
hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim v_head_dim vocab_size
kv_lora_rank qk_rope_head_dim qk_nope_head_dim swa_head_dim swa_v_head_dim swa_num_key_value_heads
max_position_embeddings max_sequence_length seq_length max_seq_len model_max_length
sliding_window sliding_window_size window_size attention_chunk_size is_hybrid_swa use_mla use_mla_nope
n_head_kv num_kv_heads multi_query_group_num num_attention_groups multi_query num_nextn_predict_layers loop_num num_loops
full_attention_interval linear_num_value_heads linear_value_head_dim linear_num_key_heads linear_key_head_dim
linear_conv_kernel_dim linear_num_heads linear_head_dim layer_group_size short_conv_kernel_size num_linear_key_value_heads
mamba_d_ssm mamba_n_heads mamba_n_groups mamba_d_state mamba_d_conv mamba_d_head mamba_expand mamba_head_dim mamba_num_heads
n_groups ssm_state_size conv_kernel conv_L_cache intermediate_size state_size expand num_heads
lightning_nkv lightning_head_dim cca_time0 cca_time1 sconv_kernel_size
index_topk index_head_dim index_topk_freq index_skip_topk_offset index_kpool
""".split()


def vision(cls, config):
    """The facts of the vision config that cls constructs, if it does."""
    try:
        tower = cls(vision_config={"hidden_size": 7}).vision_config
    except Exception:
        tower = getattr(config, "vision_config", None)
    if tower is None or isinstance(tower, dict):
        return []
    default = getattr(config, "vision_config", None)
    sizes = [getattr(default, key, "-") for key in ("num_hidden_layers", "hidden_size")]
    return ["vision%s=%s,%s" % ("" if default else "?", *sizes)]


# Other values of what defaults are computed from: a default that moves with them is none.
OTHER = {"num_attention_heads": 24, "hidden_size": 24 * 96, "num_hidden_layers": 12}


def number(config, key):
    value = getattr(config, key, None)
    return int(value) if isinstance(value, (bool, int)) else None


def defaults(cls, config):
    """Fields that the class itself gives a value, whatever the file says."""
    try:
        moved = cls(**OTHER)
    except Exception:
        moved = config
    given = inspect.signature(cls.__init__).parameters
    for key in FIELDS:
        value = number(config, key)
        if key in given and given[key].default == "auto":
            continue
        if value is not None and (key in OTHER or number(moved, key) == value):
            yield "%s=%d" % (key, value)


def copies(cls):
    """Fields of sliding layers that the class takes from another field of the file."""
    for key in FIELDS:
        for other in FIELDS:
            try:
                copied = key.startswith("swa_") and key != other and number(cls(**{other: 6}), key) == 6
            except Exception:
                continue
            if copied:
                yield "%s>%s" % (key, other)


def facts(cls):
    try:
        config = cls()
    except Exception:  # has no defaults at all
        return []
    out = ["%s>%s" % (key, other) for key, other in sorted((cls.attribute_map or {}).items()) if key in FIELDS]
    out += copies(cls)
    if dtype := getattr(config, "dtype", None):
        out.append("dtype=" + str(dtype).removeprefix("torch."))
    return out + list(defaults(cls, config)) + vision(cls, config)


def nested(cls):
    """Nested configs that cls does not construct when their model_type is not known."""
    out = []
    for key in sorted(getattr(cls, "sub_configs", None) or {}):
        try:
            cls(**{key: {"model_type": "not a model_type"}})
        except KeyError:
            out.append("sub:" + key)
        except Exception:
            pass
    return out


def texts(kind, cls):
    """The engine's own classes of the text config nested in cls, by "model_type.key"."""
    for key in ("llm_config", "language_config", "text_config"):
        try:
            text = type(getattr(cls(**{key: {}}), key))
        except Exception:
            continue
        if text.__module__.startswith("sglang."):
            yield "%s.%s" % (kind, key), text


def types_by_others():
    """The lines of model/classtypes.tsv, by model_type."""
    with open(os.path.join(ROOT, "model", "classtypes.tsv")) as f:
        lines = dict(line.rstrip("\n").split("\t") for line in f)
    return {kind: lines[line[1:]] if line.startswith("=") else line for kind, line in lines.items()}


def types(cls):
    """A class's line of types."""
    by_init = transformers_classes.fields_of(cls)[1]
    if by_init or not hasattr(cls, "__class_validators__"):
        return "-"
    strict = transformers_classes.strict_types(cls)
    return " ".join("%s=%s" % (code, ",".join(names)) for code, names in sorted(strict.items())) or "-"


def main():
    lines, held, others = {}, {}, types_by_others()
    for kind in CONFIG_MAPPING.keys():
        try:
            cls = CONFIG_MAPPING[kind]
        except Exception:  # its module does not import here
            cls = None
        lines[kind] = nested(cls) + (facts(_CONFIG_REGISTRY[kind]) if kind in _CONFIG_REGISTRY else [])
        if cls is not None and (line := types(cls)) != others.get(kind, "-"):
            held[kind] = line
    for kind, cls in _CONFIG_REGISTRY.items():
        lines.setdefault(kind, facts(cls))
        for name, text in texts(kind, cls):
            lines[name] = facts(text)
    for name, table in (("classes.tsv", {k: " ".join(v) for k, v in lines.items()}), ("classtypes.tsv", held)):
        with open(os.path.join(ROOT, "engine", "sglang", name), "w") as out:
            for kind in sorted(table):
                print(kind, table[kind], sep="\t", file=out)


main()
