"""Write activation/passes.tsv: what a layer's forward pass in vLLM holds on to.

    python tools/facts/vllm_passes.py > activation/passes.tsv

Run it where vLLM is installed; nothing is imported, the sources are read. Each line: an
architecture of vLLM's registry and flags. Those without a flag are left out.

    d  the MLP lets go of gate and up before it multiplies down
    r  a layer adds its residual by itself, not in the norm that follows
    h  and hands it on all the same
"""

import ast
import importlib.util
import os
import re

MODELS = os.path.join(os.path.dirname(importlib.util.find_spec("vllm").origin), "model_executor", "models")


def tree(module):
    with open(os.path.join(MODELS, *module.split(".")) + ".py", encoding="utf-8") as f:
        return ast.parse(f.read())


def registry():
    """Architecture -> module, of the text generation and multimodal models."""
    out = {}
    for node in tree("registry").body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple) and len(value.elts) == 2:
                    module = value.elts[0]
                    if isinstance(module, ast.Constant) and "." not in str(module.value):
                        out.setdefault(key.value, module.value)
    return out


MODULES = {}


def classes(module):
    """The classes that a module defines or imports from a sibling, by their names there."""
    if module in MODULES:
        return MODULES[module]
    out = MODULES[module] = {}
    try:
        body = tree(module).body
    except OSError:
        return out
    for node in body:
        if isinstance(node, ast.ClassDef):
            out[node.name] = node
        elif sibling(node):
            for name in node.names:
                found = classes(sibling(node)).get(name.name)
                if found is not None:
                    out[name.asname or name.name] = found
    return out


def forward(cls):
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            return node


def hands_on(cls):
    """Whether such a layer returns its residual."""
    if not adds(cls):
        return None
    return re.search(r"return \(?\w+, residual", ast.unparse(forward(cls))) is not None


TOWER = ("Vision", "Audio", "Visual", "Patch", "Encoder", "Projector", "Merger")


def lets_go(cls):
    """Whether an MLP's gate and up are bound to the name of its input, None for no MLP."""
    run = forward(cls)
    if run is None or len(run.args.args) < 2 or any(t in cls.name for t in TOWER):
        return None
    held = {run.args.args[1].arg}
    for node in ast.walk(run):
        if isinstance(node, ast.Assign) and "gate_up_proj(" in ast.unparse(node.value):
            target = node.targets[0]
            target = target.elts[0] if isinstance(target, ast.Tuple) else target
            return ast.unparse(target) in held
    return None


def adds(cls):
    """Whether a decoder layer adds its residual by itself, None for no such layer."""
    run = forward(cls)
    if run is None or any(t in cls.name for t in TOWER) or not cls.name.endswith(("DecoderLayer", "Block", "Layer")):
        return None
    source = ast.unparse(run)
    if "attn" not in source and "mixer" not in source and "mamba" not in source:
        return None
    return re.search(r"norm\w*\(\w+, residual", source) is None


def sibling(node):
    """The module beside this one that a statement imports from, None for another statement."""
    if isinstance(node, ast.ImportFrom) and node.module:
        package = "vllm.model_executor.models."
        if node.level == 1:
            return node.module
        if node.module.startswith(package):
            return node.module[len(package):]


def siblings(module):
    """The modules that a module imports from."""
    try:
        return [sibling(n) for n in tree(module).body if sibling(n)]
    except OSError:
        return []


def flags(module):
    """A module that defines neither MLP nor layer inherits them."""
    found = list(classes(module).values())
    if not any(rule(c) is not None for c in found for rule in (lets_go, adds)):
        found += [c for s in siblings(module) for c in classes(s).values()]
    out = ""
    for letter, rule in (("d", lets_go), ("r", adds), ("h", hands_on)):
        answers = [a for a in map(rule, found) if a is not None]
        out += letter if answers and all(answers) and (letter != "h" or "r" in out) else ""
    return out


def main():
    for arch, module in sorted(registry().items()):
        mark = flags(module)
        if mark:
            print(f"{arch}\t{mark}")


main()
