"""Answer drawn jobs with a real engine: one JSON object a line in, one a line out.

    python tools/difftest/driver.py vllm|sglang ORACLES GPU

ORACLES is the folder of vllm_oracle.py and sglang_oracle.py, whose functions run the
engine; one process stands for one kind of GPU. A job has id, file, gpu, layout, config and,
where there are any, hf_quant_config, draft_config and available; the row that comes back
has them too, with the engine's answer. The first line out is {"ready": true}.
"""

import atexit
import importlib
import json
import logging
import os
import shutil
import sys
import tempfile

import own


def answers_of_sglang(gpu):
    import sglang_oracle as oracle

    tempfile.tempdir = tempfile.mkdtemp(prefix="orc-")  # which other drivers do not empty
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    oracle.load_engine(gpu)
    logger = logging.getLogger("sglang")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(oracle._CAPTURE)
    logging.getLogger().addHandler(oracle._CAPTURE)

    def answer(job):
        name = job["file"].removesuffix(".json")  # some rules look at the path
        flat = {**job["layout"], "config": job["config"], "id": job["id"], "file": job["file"], "model_id": name}
        for key in ("hf_quant_config", "draft_config"):
            if job.get(key):
                flat[key] = job[key]
        row = oracle.run_job(flat)
        shutil.rmtree(os.path.join(tempfile.gettempdir(), "sglang-oracle-configs"), ignore_errors=True)
        return row

    return answer


class Warmth:
    """What the forked children import, so that this process imports it once for those to come.

    A child that builds a model spends a quarter of its time in imports otherwise. Models of
    Transformers are left to the child: where they are traced, nn.Module is patched over and
    over, which takes as long as it has subclasses.
    """

    def __init__(self, run_job):
        self.run_job = run_job
        self.names = tempfile.TemporaryFile("w+")

    def noting(self, job):
        """In a child: run a job and leave the names of the modules that it imported."""
        before = set(sys.modules)
        try:
            return self.run_job(job)
        finally:
            new = [n for n in sys.modules if n not in before and not n.startswith("transformers")]
            self.names.write("\n".join(new) + "\n")
            self.names.flush()

    def spread(self):
        """In the parent: import what the last child imported."""
        self.names.seek(0)
        for name in self.names.read().split():
            try:
                importlib.import_module(name)
            except Exception:  # some are there for one config only
                pass
        self.names.seek(0)
        self.names.truncate()


# What classes read of the files beside config.json, which no size depends on.
BESIDE = {"Dots3NoteForCausalLM": {"added_tokens.json": {"<|imgpad|>": 151665}}}


def answers_of_vllm(gpu):
    import vllm_oracle as oracle

    oracle.FakeGpu.key = gpu
    oracle.patch_environment()
    oracle.preload()
    own.on_cpu()
    warmth = Warmth(oracle.run_job)
    oracle.run_job = warmth.noting

    def answer(job):
        folder = tempfile.mkdtemp(prefix="orc-")
        try:
            files = own.files(job["config"])
            trust = {"trust_remote_code": True} if files else {}
            if job.get("hf_quant_config"):
                files["hf_quant_config.json"] = json.dumps(job["hf_quant_config"])
            for name, body in BESIDE.get((job["config"].get("architectures") or [""])[0], {}).items():
                files[name] = json.dumps(body)
            path = oracle.make_model_dir(job["config"], os.path.join(folder, "orc-m"), files)
            flat = {"tp": 1, "pp": 1, "dcp": 1, **job["layout"], "gpu": gpu, "model_dir": path,
                    "available": job["available"], **trust}
            row = oracle.run_with_retry(flat, 120, job["config"])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        warmth.spread()
        return row

    return answer


def main():
    engine, oracles, gpu = sys.argv[1:]
    sys.path.insert(0, oracles)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the engine prints is not an answer
    answer = {"vllm": answers_of_vllm, "sglang": answers_of_sglang}[engine](gpu)
    print('{"ready": true}', file=out, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        row = answer(job)
        row.update(job)
        print(json.dumps(row, default=str), file=out, flush=True)


if __name__ == "__main__":
    main()
