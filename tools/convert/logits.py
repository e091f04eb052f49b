#!/usr/bin/env python3
"""Hold `headcount convert` to Transformers, class by class.

For each class: a small MHA (or GQA) checkpoint with real tensors is made by save_pretrained, headcount converts it,
and Transformers loads the result. Its logits must equal those of a reference: a model of the same class whose KV heads
were pooled here, in torch, by the layout that the class itself reads. One line a class; exit 1 if any differs.

    python tools/convert/logits.py HEADCOUNT [FOLDER]

HEADCOUNT is the program. Needs torch and transformers, no network.
"""
import copy, os, subprocess, sys, tempfile
import torch, transformers as tf

SIZES = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=8, vocab_size=128, intermediate_size=96,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)

def config(cls, **more):
    return cls(**{**SIZES, **more})

# name, model class, config, KV heads before and after, layout of the tensors named *key*, of the config after
CASES = [
    ("llama, MHA to GQA", tf.LlamaForCausalLM, config(tf.LlamaConfig, num_key_value_heads=8), 8, 2, "apart"),
    ("llama, GQA to MQA", tf.LlamaForCausalLM, config(tf.LlamaConfig, num_key_value_heads=4), 4, 1, "apart"),
    ("qwen2, biases", tf.Qwen2ForCausalLM, config(tf.Qwen2Config, num_key_value_heads=8), 8, 4, "apart"),
    ("qwen3, norms of a head", tf.Qwen3ForCausalLM, config(tf.Qwen3Config, num_key_value_heads=8, head_dim=8), 8, 2, "apart"),
    ("olmo2, a norm over heads", tf.Olmo2ForCausalLM, config(tf.Olmo2Config, num_key_value_heads=8), 8, 2, "apart"),
    ("cohere, a norm a head", tf.CohereForCausalLM, config(tf.CohereConfig, num_key_value_heads=8, use_qk_norm=True), 8, 2, "apart"),
    ("phi, biases everywhere", tf.PhiForCausalLM, config(tf.PhiConfig), 8, 2, "apart"),
    ("phi3, qkv_proj", tf.Phi3ForCausalLM, config(tf.Phi3Config, num_key_value_heads=8), 8, 2, "in turn"),
    ("falcon, second generation", tf.FalconForCausalLM,
     config(tf.FalconConfig, num_kv_heads=8, new_decoder_architecture=True, bias=True), 8, 2, "by group"),
    ("falcon, MHA to GQA", tf.FalconForCausalLM, config(tf.FalconConfig, multi_query=False), 8, 2, "by group"),
    ("falcon, MHA to MQA, alibi", tf.FalconForCausalLM,
     config(tf.FalconConfig, multi_query=False, parallel_attn=False, alibi=True, bias=True), 8, 1, "by group"),
    ("gpt_bigcode, c_attn", tf.GPTBigCodeForCausalLM,
     tf.GPTBigCodeConfig(n_embd=64, n_layer=2, n_head=8, vocab_size=128, n_positions=64, multi_query=False), 8, 1, "by group"),
]

WEIGHTS = ("k_proj", "v_proj", "qkv_proj", "query_key_value", "c_attn", "k_norm")

def mean(heads):
    """[heads of a group, ...] in float32 and one after the other, rounded once."""
    total = heads[0].float()
    for h in heads[1:]:
        total = total + h.float()
    return (total / len(heads)).to(heads[0].dtype)

def pool(x, query, before, after, layout, name):
    """One tensor whose rows are those of heads."""
    group, rows = before // after, x.shape[0]
    def pooled(part):                                       # [before, ...] → [after, ...]
        return torch.stack([mean(list(part[i * group:(i + 1) * group])) for i in range(after)])
    if name in ("k_proj", "v_proj") or name == "k_norm":
        if name == "k_norm" and x.dim() == 1 and rows * query == 64:   # one norm that all heads share
            return x
        if x.dim() == 2 and name == "k_norm":               # [heads, width]
            return pooled(x)
        return pooled(x.view(before, rows // before, *x.shape[1:])).flatten(0, 1)
    if layout == "in turn":
        width = rows // (query + 2 * before)
        heads = x.view(query + 2 * before, width, *x.shape[1:])
        q, k, v = heads[:query], heads[query:query + before], heads[query + before:]
        return torch.cat([q, pooled(k), pooled(v)]).flatten(0, 1)
    width = rows // (query + 2 * before)
    heads = x.view(before, query // before + 2, width, *x.shape[1:])
    q, k, v = heads[:, :-2].flatten(0, 1), pooled(heads[:, -2]), pooled(heads[:, -1])
    q = q.view(after, query // after, width, *x.shape[1:])
    return torch.cat([q, k[:, None], v[:, None]], 1).flatten(0, 2)

def reference(model, made, query, before, after, layout):
    """The class with fewer heads, filled from model by pooling."""
    state = model.state_dict()
    for full, x in state.items():
        name = next((w for w in WEIGHTS if "." + w + "." in full), None)
        if name:
            state[full] = pool(x, query, before, after, layout, name)
    out = type(model)(made)
    out.load_state_dict(state)
    return out

def with_heads(cfg, after):
    """The config with fewer heads, written as its class wants it, apart from headcount."""
    out = copy.deepcopy(cfg)
    if cfg.model_type == "falcon" and after == 1:
        out.multi_query = True
    elif cfg.model_type == "falcon":
        out.num_kv_heads, out.new_decoder_architecture = after, True
        if not cfg.new_decoder_architecture:
            out.num_ln_in_parallel_attn = 1
    elif cfg.model_type == "gpt_bigcode":
        out.multi_query = True
        out.num_key_value_heads = 1
    else:
        out.num_key_value_heads = after
    return out

def main():
    headcount = os.path.abspath(sys.argv[1])
    work = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="convert-logits-")
    torch.set_num_threads(1)
    tf.utils.logging.disable_progress_bar()
    tf.utils.logging.set_verbosity_error()
    bad = 0
    for i, (name, cls, cfg, before, after, layout) in enumerate(CASES):
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(i)
            model = cls(cfg)
            for p in model.parameters():                     # also norms and biases, which begin as ones and zeros
                torch.nn.init.normal_(p, std=0.3)
            model = model.to(dtype).eval()
            folder = os.path.join(work, f"{i}-{str(dtype)[6:]}")
            model.save_pretrained(os.path.join(folder, "in"), max_shard_size="60KB")
            run = subprocess.run([headcount, "convert", os.path.join(folder, "in"), os.path.join(folder, "out"), "--kv-heads", str(after)],
                                 capture_output=True, text=True)
            if run.returncode:
                print(f"{name}: {run.stderr.strip()}")
                bad += 1
                continue
            made = reference(model, with_heads(cfg, after), 8, before, after, layout).to(dtype)
            made.save_pretrained(os.path.join(folder, "reference"))
            got, want = (cls.from_pretrained(os.path.join(folder, x), dtype=dtype).eval() for x in ("out", "reference"))
            ids = torch.arange(3, 35)[None] % 128
            with torch.no_grad():
                difference = (got(ids).logits.float() - want(ids).logits.float()).abs().max().item()
                changed = (model(ids).logits.float() - want(ids).logits.float()).abs().max().item()
            ok = difference == 0 and changed > 0
            bad += not ok
            print(f"{'ok ' if ok else 'BAD'} {name:28s} {str(dtype)[6:]:9s} {before} -> {after}: logits differ by {difference:g} from the reference,"
                  f" by {changed:.3g} from the model before")
    print(f"{2 * len(CASES) - bad} passed, {bad} failed")
    sys.exit(bad > 0)

if __name__ == "__main__":
    main()
