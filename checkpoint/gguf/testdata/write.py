"""Writes GGUF files with the format's own writer into a folder, and says what is in them.

numpy has no packed types, so each tensor goes in as bytes under its type."""
import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES

folder, said = Path(sys.argv[1]), []


def tell(files):
    for path, tensors in files:
        said.append({"File": path.name, "Tensors": tensors})


def add(writer, name, kind, shape):
    elements, size = GGML_QUANT_SIZES[kind]
    packed = (*shape[:-1], shape[-1] // elements * size)
    writer.add_tensor(name, np.zeros(packed, np.uint8), raw_shape=packed, raw_dtype=kind)
    return {"DType": kind.name, "Shape": shape, "Bytes": int(np.prod(packed))}


def facts(writer):
    writer.add_block_count(1)
    writer.add_embedding_length(512)
    writer.add_head_count(8)
    writer.add_head_count_kv(2)
    writer.add_token_list(["token"] * 5000)


one = GGUFWriter(folder / "one.gguf", "llama")
facts(one)
tensors = {k.name: add(one, k.name, k, [3, 2 * GGML_QUANT_SIZES[k][0]]) for k in GGMLQuantizationType}
one.write_header_to_file()
one.write_kv_data_to_file()
one.write_tensors_to_file()
one.close()
tell([(folder / "one.gguf", tensors)])

many = GGUFWriter(folder / "split.gguf", "llama", split_max_tensors=1)
facts(many)
names = ["token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight"]
tensors = [{n: add(many, n, GGMLQuantizationType.Q4_K, [4, 512])} for n in names]
many.write_header_to_file()
many.write_kv_data_to_file()
many.write_tensors_to_file()
many.close()
tell((folder / f"split-{i + 1:05d}-of-00003.gguf", t) for i, t in enumerate(tensors))
print(json.dumps(said))
