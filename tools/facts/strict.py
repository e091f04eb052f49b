#!/usr/bin/env python3
"""Write engine/vllm/strict.tsv: the types that configuration classes hold a file to.

    python tools/facts/strict.py > engine/vllm/strict.tsv

Run it with the Python that has vLLM and the Transformers release that it uses. A line is a
class, a tab, and facts separated by spaces. A class is named by its model_type, or by its
own name if that model_type is another class's. Fields of any type are left out.

    code=field,field   fields of one type; engine/vllm/strict.go says how a type is coded
    >key=class         a nested config
    >key=*class        a nested config read by its own model_type, class if it has none
    whole              hidden_size must be a multiple of num_attention_heads
    free               layer_types may be anything; in other classes they are words of the line
                       "~", as many as layers
"""

import dataclasses
import inspect
import logging
import sys
import types
import typing
import warnings
from collections import defaultdict
from collections.abc import Sequence

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import torch  # noqa: E402
from transformers import PreTrainedConfig  # noqa: E402
from transformers.configuration_utils import ALLOWED_ATTN_LAYER_TYPES  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402
from vllm.transformers_utils.config import _CONFIG_REGISTRY  # noqa: E402

SIMPLE = {int: "i", bool: "b", float: "f", str: "s", type(None): "n", None: "n", dict: "d", list: "l", Sequence: "ls", typing.Any: "a"}


def code(t):
    """The code of a type, letters for what a JSON value may be; "a" where anything may."""
    if isinstance(t, (str, typing.ForwardRef)):
        return "a"
    if typing.is_typeddict(t):
        return "d"
    origin, args = typing.get_origin(t), typing.get_args(t)
    if origin in (typing.Union, types.UnionType):
        parts = [code(a) for a in args]
        return "a" if "a" in parts else "".join(sorted(set(parts), key=parts.index))
    if origin is typing.Literal:
        if any(not isinstance(a, str) or any(c in a for c in "\"[] =,") for a in args):
            return "a"
        return "".join('"%s"' % a for a in args)
    if origin is list:
        return "[" + code(args[0]) + "]"
    if origin is Sequence:
        return "s[" + code(args[0]) + "]"
    if origin is dict:
        return "d"
    if origin is tuple or t is tuple:
        return "t"
    if t in SIMPLE:
        return SIMPLE[t]
    if isinstance(t, type) and (issubclass(t, PreTrainedConfig) or t is torch.dtype):
        return ""
    return "a"


def fields(cls):
    """The fields that are checked as they are set: not those of a class with a constructor of its own."""
    made = inspect.unwrap(cls.__init__).__code__.co_filename.startswith("<")
    if not made or not dataclasses.is_dataclass(cls):
        return {}
    return {f.name: code(f.type) for f in dataclasses.fields(cls)}


def validator(cls, name):
    try:
        return inspect.getsource(getattr(cls, name))
    except (AttributeError, OSError, TypeError):
        return ""


# Words of layer_types that may be aliases.
ALIASES = ["attention", "deepseek_sparse_attention", "linear", "mamba", "recurrent", "sliding", "conv"]


def refused(cls, word):
    """Whether cls refuses layers of a word."""
    try:
        cls(num_hidden_layers=2, layer_types=[word] * 2)
    except Exception as e:
        return "validate_layer_type" in str(e)
    return False


def renames(cls, key):
    """Whether cls corrects the model_type of a nested config before it reads it."""
    source = validator(cls, "__post_init__")
    return any('self.%s%s' % (key, how) in source for how in ('["model_type"] =', '.pop("model_type"'))


def main():
    classes = {}
    for kind in list(CONFIG_MAPPING.keys()):
        try:
            classes[kind] = CONFIG_MAPPING[kind]
        except Exception as e:
            print(kind, type(e).__name__, file=sys.stderr)
    for kind in _CONFIG_REGISTRY:
        classes[kind] = _CONFIG_REGISTRY[kind]
    names = {cls: kind for kind, cls in reversed(list(classes.items()))}

    def name_of(cls):
        if cls not in names:
            kind = getattr(cls, "model_type", "") or cls.__name__
            names[cls] = kind if kind not in classes else cls.__name__
            classes[names[cls]] = cls
        return names[cls]

    todo, lines = list(classes), {}
    extra = defaultdict(list)
    while todo:
        kind = todo.pop()
        cls = classes[kind]
        lines[kind] = fields(cls)
        specs = getattr(cls, "sub_configs", None) or {}
        for key, spec in (specs | (getattr(cls, "sub_configs_defaults", None) or {})).items():
            nested = getattr(spec, "config_class", spec)
            if key == "backbone_config" or renames(cls, key) or not isinstance(nested, type):
                continue
            before = len(classes)
            if issubclass(nested, PreTrainedConfig):
                sub = name_of(nested)
            elif hasattr(spec, "model_type"):
                sub = "*" + (spec.model_type or "")
            else:
                continue
            extra[kind].append(">%s=%s" % (key, sub))
            if len(classes) > before:
                todo.append(sub)
        source = validator(cls, "validate_architecture")
        if "if self.hidden_size % self.num_attention_heads != 0:" in source:
            extra[kind].append("whole")
        if not refused(cls, "no such layer") or refused(cls, "full_attention"):
            extra[kind].append("free")
    for kind in sorted(lines):
        by = defaultdict(list)
        for field, c in lines[kind].items():
            by[c].append(field)
        facts = ["%s=%s" % (c, ",".join(sorted(by[c]))) for c in sorted(by) if c != "a"]
        print(kind + "\t" + " ".join(extra[kind] + facts))
    aliases = [w for w in ALIASES if not refused(classes["llama"], w)]
    print("~\t" + " ".join(sorted({*ALLOWED_ATTN_LAYER_TYPES, *aliases})))


main()
