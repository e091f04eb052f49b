"""Write model/testdata/classes.jsonl.gz: what configuration classes make of probing files.

    HF_HUB_OFFLINE=1 python tools/facts/probes.py

Each class of model/classes.tsv is constructed from an empty file and from files that give
its fields other values, leave them null, or use older names. A line holds the model_type,
the file, and the attributes that are neither the file's nor the class's default: what the
constructor computed; or null when the class refuses the file. model/probes_test.go compares.
"""

import gzip
import json
import logging
import os
import sys

import classes

from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

logging.disable(logging.CRITICAL)

# Values of a wrong type, for fields that many classes have.
WRONG = [
    {"num_hidden_layers": 2.5}, {"num_attention_heads": "12"}, {"hidden_size": None}, {"max_position_embeddings": None},
    {"head_dim": 64.0}, {"rms_norm_eps": 1}, {"vocab_size": True}, {"layer_types": "full_attention"},
    {"layer_types": ["full_attention"]}, {"layer_types": ["nothing"]}, {"tie_word_embeddings": 0}, {"sliding_window": "none"},
    {"num_attention_heads": 7}, {"rope_parameters": []},
]

# Older names and per-family knobs that constructors look for.
OLDER = [
    {"rope_theta": 12345.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
    {"rope_theta": 12345.0, "partial_rotary_factor": 0.5, "sliding_window_pattern": 3, "full_attention_interval": 3},
    {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "layer_types": None, "global_attn_every_n_layers": 2},
    {"first_k_dense_replace": 2, "tie_embedding": True, "n_embed": 128, "mamba_d_conv": 3},
]


def other(key, value, table):
    """Another value for a field, consistent enough for the class to accept it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value > 0:
        if key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
            return value + 3
        if "hidden_size" in key or "intermediate" in key or key in ("n_embd", "d_model", "ffn_dim"):
            return value * 2
        if "key_value" in key or key == "head_dim":
            return None if table.get(key, 0) is None else value
    return value


def computed(cls, file):
    config = cls(**json.loads(json.dumps(file)))
    default = {k: v for k, v in classes.fields_of(cls)[0].items()}
    alias = cls.attribute_map or {}
    out = {}
    for key, value in config.__dict__.items():
        if key.startswith("_") or classes.noise(key) or isinstance(value, PreTrainedConfig) or key in (
                "dtype", "tie_word_embeddings", "base_model_tp_plan", "ignore_keys_at_rope_validation", "is_encoder_decoder"):
            continue
        ok, value = classes.jsonable(value)
        if not ok:
            continue
        if key in file and file[key] == value or key not in file and key in default and classes.jsonable(default[key]) == (True, value):
            continue
        if any(alias.get(k) == key for k in {*file, *default}):
            continue
        out[key] = value
    return out


def main():
    import vllm.transformers_utils.config as vc

    known = {mt: CONFIG_MAPPING[mt] for mt in CONFIG_MAPPING_NAMES}
    for mt in vc._CONFIG_REGISTRY:
        known[mt] = vc._CONFIG_REGISTRY[mt]
    here = os.path.dirname(os.path.abspath(__file__))
    name = os.path.join(here, "..", "..", "model", "testdata", "classes.jsonl.gz")
    rows = failed = 0
    with gzip.GzipFile(name, "wb", mtime=0) as f:
        for mt, cls in sorted(known.items()):
            fields = {k: v for k, (ok, v) in ((k, classes.jsonable(v)) for k, v in classes.fields_of(cls)[0].items())
                      if ok and not classes.noise(k)}
            changed = {k: other(k, v, fields) for k, v in fields.items() if other(k, v, fields) != v}
            files = [{}, changed, *({**changed, **o} for o in OLDER),
                     *(w for w in WRONG if set(w) <= set(fields))]
            for file in files:
                try:
                    row = [mt, file, computed(cls, file)]
                except Exception as e:
                    failed += 1
                    if not type(e).__name__.startswith("Strict"):
                        continue
                    row = [mt, file, None]
                f.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
                rows += 1
    print(f"{rows} rows; {failed} files that their class refuses", file=sys.stderr)


if __name__ == "__main__":
    main()
