"""Fill params.jsonl with vLLM's answers: for each line's "params", the config that its
Mistral parser makes of it, or the refusal.

    python params.py params.jsonl    # needs vllm; the rows here are of 0.33.0
"""

import copy
import json
import sys

from transformers import PreTrainedConfig
from vllm.transformers_utils.configs.mistral import adapt_config_dict

# What every Transformers config object has, whatever was read.
OWN = {
    "transformers_version", "output_hidden_states", "return_dict", "chunk_size_feed_forward",
    "id2label", "label2id", "problem_type", "is_encoder_decoder",
}


def view(config):
    out = {"model_type": config.model_type} if config.model_type else {}
    for key, value in vars(config).items():
        if key.startswith("_") or key in OWN or value is None:
            continue
        out[key] = view(value) if isinstance(value, PreTrainedConfig) else value
    return out


def answer(params):
    params = copy.deepcopy(params)
    if params.get("max_position_embeddings") is None:
        params["max_position_embeddings"] = 128_000  # MistralConfigParser.parse, without a config.json
    try:
        config = view(adapt_config_dict(params, {}))
        return {"config": json.loads(json.dumps(config, default=lambda x: str(x).removeprefix("torch.")))}
    except Exception as e:
        return {"refused": str(e).split("\n")[0]}


with open(sys.argv[1]) as f:
    rows = [json.loads(line) for line in f]
with open(sys.argv[1], "w") as f:
    for row in rows:
        answered = {"name": row["name"], "params": row["params"], **answer(row["params"])}
        f.write(json.dumps(answered, separators=(",", ":")) + "\n")
