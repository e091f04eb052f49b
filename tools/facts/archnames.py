"""Write model/archnames.tsv: the class names that Transformers has for a model_type.

    HF_HUB_OFFLINE=1 python tools/facts/archnames.py > model/archnames.tsv

Each line: model_type, the base model's class, the class with a language-model head. Either
may be empty. Engines read a config without architectures by one of them.
"""

from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)


def name(mapping, model_type):
    value = mapping.get(model_type, "")
    return value if isinstance(value, str) else value[0]


for model_type in sorted({*MODEL_MAPPING_NAMES, *MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}):
    row = (model_type, name(MODEL_MAPPING_NAMES, model_type), name(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, model_type))
    print("\t".join(row).rstrip("\t"))
