"""Write engine/vllm/archs.tsv: what vLLM's registry says of each architecture.

    HF_HUB_OFFLINE=1 python tools/facts/vllm_archs.py > engine/vllm/archs.tsv

Run it where vLLM is installed; no GPU is needed. Each line: architecture, model class,
flags, and for what is no longer served what the engine says of it. engine/vllm/archs.go
says what the flags mean. The second part of the file are Transformers' own classes that
vLLM's Transformers backend takes, as the engine itself decides it.
"""

import functools
import inspect
import os
import re
import sys
import types

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import transformers
from vllm.platforms import current_platform
from vllm.model_executor.models import registry

POOLING = {"LAST": "", "CLS": "c", "MEAN": "e"}


def flags(info):
    out = ""
    for letter, on in (
        ("g", info.is_text_generation_model),
        ("p", info.is_pooling_model),
        ("P", info.supports_pp),
        ("m", info.supports_multimodal),
        ("h", info.is_hybrid),
        ("f", info.is_attention_free),
        ("s", info.has_inner_state),
        ("n", info.has_noops),
        ("t", info.supports_transcription),
        ("k", info.supports_kv_cache_grouping),
        ("b", info.attn_type == "encoder_only"),
        ("S", info.default_tok_pooling_type == "STEP"),
    ):
        out += letter if on else ""
    return out + POOLING[info.default_seq_pooling_type]


@functools.cache
def parts(cls):
    """The source of cls, and the model classes that it names."""
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        return "", []
    module = vars(sys.modules[cls.__module__])
    named = [module.get(name) for name in sorted(set(re.findall(r"\b[A-Z]\w+\b", source)))]
    for table in [part for part in named if type(part) is dict]:  # of a hybrid's layer classes
        named += table.values()
    return source, [part for part in named if isinstance(part, type) and ".models." in part.__module__
                    and TOWER.search(part.__name__) is None]


# Inherits from a class whose language model it does not build.
OTHER_LANGUAGE_MODEL = {"Cosmos3EdgeForConditionalGeneration"}


def only_silu(cls):
    """Which of the modules that cls is built of raise for an activation that is not silu: "u"
    MLPs, "U" layers of experts as well, "" none."""
    if cls.__name__ in OTHER_LANGUAGE_MODEL:
        return ""
    found, todo, seen = "", [cls], {cls}
    while todo:
        part = todo.pop()
        source, named = parts(part)
        if re.search(r'if (config\.|self\.)?hidden_act != "silu":\s+raise', source):
            found = "U" if found == "U" or re.search("MoE$", part.__name__) else "u"
        todo += [part for part in named if part not in seen]
        seen.update(named)
    return found


# Towers have an activation of their own.
TOWER = re.compile("Vision|Audio|Encoder|Visual|Speech|Whisper|ViT")


# What cannot be imported without a CUDA build or a package of its own, as its source
# declares it.
WITHOUT_IMPORT = {
    "Terratorch": ("Terratorch", "pmf"),
    "Dots3NoteForCausalLM": ("Dots3NoteForCausalLM", "gPm"),
    "Dots3NoteMTPModel": ("Dots3NoteMTP", "gPd"),
}


FOR_CUDA = {"vllm.models.deepseek_v32"}


def native():
    drafts = registry._SPECULATIVE_DECODING_MODELS
    for arch, model in registry.ModelRegistry.models.items():
        # Some architectures have a class for each maker's devices, chosen on import.
        type(current_platform).is_cuda = lambda self, on=model.module_name in FOR_CUDA: on
        try:
            cls = model.load_model_cls()
        except ImportError as e:
            if arch not in WITHOUT_IMPORT:
                raise
            print(f"{arch}: {e}", file=sys.stderr)
            yield (arch, *WITHOUT_IMPORT[arch], "")
            continue
        info = registry._ModelInfo.from_model_cls(cls)
        yield arch, cls.__name__, flags(info) + ("d" if arch in drafts else "") + only_silu(cls), ""


def backend(seen):
    """Classes of Transformers that the backend takes, by the engine's own two questions."""
    for name in sorted(set(transformers._import_structure_names())):
        if name in seen or name.startswith("_") or name.endswith("PreTrainedModel"):
            continue
        try:
            cls = getattr(transformers, name)
        except Exception as e:  # needs a package that is not installed
            print(f"{name}: {type(e).__name__}", file=sys.stderr)
            continue
        if not isinstance(cls, type) or not issubclass(cls, transformers.PreTrainedModel):
            continue
        try:
            if cls.is_backend_compatible() or cls._can_set_attn_implementation():
                yield name, "", "w", ""
        except Exception as e:
            print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)


def main():
    transformers._import_structure_names = types.MethodType(
        lambda self: [n for n in dir(self) if n[:1].isupper() and not n.endswith(("Config", "Processor", "Tokenizer", "TokenizerFast"))],
        transformers)
    rows = list(native())
    for arch, version in registry._PREVIOUSLY_SUPPORTED_MODELS.items():
        rows.append((arch, "", "r", version))
    for arch, url in registry._OOT_SUPPORTED_MODELS.items():
        rows.append((arch, "", "o", url))
    named = {r[0] for r in rows}
    # A retired architecture runs by the Transformers backend all the same where that takes it.
    taken = {r[0] for r in backend({a for a, *_ in rows if a in registry.ModelRegistry.models})}
    rows = [(a, c, f + "w", d) if a in taken and f in ("r", "o") else (a, c, f, d) for a, c, f, d in rows]
    rows += [(a, "", "w", "") for a in taken - named]
    for row in sorted(rows):
        print("\t".join(row).rstrip("\t"))


if __name__ == "__main__":
    main()
