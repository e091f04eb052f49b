"""Write engine/vllm/backend.tsv: what the Transformers backend cannot build.

    HF_HUB_OFFLINE=1 python tools/facts/vllm_backend.py | LC_ALL=C sort > engine/vllm/backend.tsv

For each model_type that Transformers has a class for and that config tells by itself, the
model is made on torch's meta device from the class's defaults, and asked what the backend
asks while it is built (vllm/model_executor/models/transformers/base.py). A line holds the
model_type, a letter, and a detail:

    n  AutoModel has no class for the config
    f  the decoder's forward lacks an argument: argument, class; the same of the whole model,
       which is what a config that nests this one asks, empty where that has them all
    a  no module of a layer calls the attention interface: the first such layer, and the
       layer types of which that is so, if it depends on them
    d  two modules of one layer do: their names
    s  the attention's scale cannot be read from its code: the expression, the class
    p  nothing to split into pipeline stages: the class; or more than one: empty

A model_type without a line has none of these troubles, by its defaults.
"""

import inspect
import logging
import os
import sys
import warnings
from operator import attrgetter

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
warnings.simplefilter("ignore")

import torch
from torch import nn
from transformers import CONFIG_MAPPING, AutoModel
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
from vllm.model_executor.models.transformers.fuser import get_fuser
from vllm.model_executor.models.transformers.fusers import AttentionFuser

logging.disable(logging.CRITICAL)

ARGUMENTS = ("input_ids", "inputs_embeds", "position_ids")


def small(config):
    """Fewer layers where that is all it takes; the questions are about classes."""
    text = config.get_text_config()
    layers = getattr(text, "num_hidden_layers", None)
    if isinstance(layers, int) and layers > 8 and getattr(text, "layer_types", None) is None:
        try:
            text.num_hidden_layers = 4
        except Exception:
            pass
    return config


def name(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


def lacks(cls):
    parameters = inspect.signature(cls.forward).parameters
    return next((a for a in ARGUMENTS if a not in parameters), "")


def troubles(model_type):
    if model_type not in MODEL_MAPPING_NAMES:
        yield "n", name(CONFIG_MAPPING[model_type])
        return
    config = small(CONFIG_MAPPING[model_type]())
    text = config.get_text_config()
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    decoder = type(model.get_decoder())
    lacking, whole = lacks(decoder), lacks(type(model))
    if lacking or whole:
        yield "f", lacking, name(decoder) if lacking else "", whole, name(type(model)) if whole else ""
    if lacking:
        return
    yield from layer_troubles(model, text)
    if model.supports_pp_plan:
        base, names = model, list(model._pp_plan)
    else:
        base = model.get_decoder()
        names = [n for n, c in base.named_children() if next(c.parameters(), None) is not None]
    lists = [n for n in names if isinstance(attrgetter(n)(base), nn.ModuleList)]
    if len(lists) != 1:
        yield "p", "" if lists else name(type(base))


def layer_troubles(model, text):
    served = {}
    for path, module in model.named_modules():
        fuser = get_fuser(module, AttentionFuser)
        index = fuser.layer_index(module) if fuser is not None else None
        if index is None:
            continue
        if index in served:
            yield "d", f"model.{served[index]}", f"model.{path}"
            return
        served[index] = path
        try:
            fuser.scale(module)
        except ValueError as e:
            yield "s", str(e).split("expression ")[1].split(" in ")[0].strip("'"), type(module).__name__
            return
    layers = getattr(text, "num_hidden_layers", 0)
    missing = [i for i in range(layers) if i not in served]
    if missing:
        types = getattr(text, "layer_types", None)
        of = sorted({types[i] for i in missing} - {types[i] for i in served if i < layers}) if types else []
        yield "a", str(missing[0]), ",".join(of)


def main():
    sys.stdout, out = sys.stderr, sys.stdout  # Transformers prints what it thinks of docstrings
    wanted = sys.argv[1:] or sorted(CONFIG_MAPPING.keys())
    for model_type in wanted:
        try:
            for row in troubles(model_type):
                print("\t".join((model_type, *row)).rstrip("\t"), file=out, flush=True)
        except Exception as e:
            print(f"{model_type}: {type(e).__name__}: {str(e)[:150]}", file=sys.stderr)


if __name__ == "__main__":
    main()
