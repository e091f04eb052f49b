#!/usr/bin/env python3
"""Write engine/sglang/archs.tsv: what an installed SGLang says of each architecture.

    python tools/facts/sglang_archs.py engine/sglang/archs.tsv

Run it with the Python that has SGLang installed. SGLang itself is read, not imported (its
model files need a GPU's kernels); Transformers is imported, for which of its classes the
engine's Transformers backend takes.

Columns: architecture, flags separated by commas, window rule. Flags:

    native    a model class of SGLang's own
    backend   a Transformers class that the Transformers backend takes
    refused   a Transformers class that it does not take
    pp        forward() takes pp_proxy_tensors: pipeline parallelism works
    range     the model object has start_layer: a stage holds its own layers only
    others    membership in the engine's own lists, see LISTS

The window rule is what get_attention_sliding_window_size() returns: a field, a field less
one, or a number; "-" where the class has no such method. After "!" it subtracts from null.
"""

import ast
import importlib.util
import pathlib
import sys

# flag: (file below sglang/srt, name of the list in it)
LISTS = {
    "mm": ("configs/model_config.py", "multimodal_model_archs"),
    "bcg": ("configs/model_config.py", "multimodal_breakable_cuda_graph_supported_model_archs"),
    "textonly": ("configs/model_config.py", "mm_disabled_models"),
    "nochunk": ("configs/model_config.py", "unsupported"),
    "hybrid": ("configs/model_config.py", "hybrid_swa_archs"),
    "sinks": ("configs/model_config.py", "SWA_SINK_ARCHS"),
    "mimo": ("configs/model_config.py", "MIMO_V2_MODEL_ARCHS"),
    "radix": ("arg_groups/overrides.py", "_MAMBA_RADIX_CACHE_ARCHS"),
    "extra": ("arg_groups/overrides.py", "_MAMBA_EXTRA_BUFFER_ARCHS"),
    "family": ("arg_groups/overrides.py", "_DEEPSEEK_FAMILY_ARCHS"),
}

# Rules that the reader below cannot follow, by class.
WINDOWS = {
    "Gemma3ForConditionalGeneration": "sliding_window-1!",  # asks its language model
    "JetNemotronForCausalLM": "efficient_attention_config.swa.window_size",
    "Dots3NoteForCausalLM": "sliding_window_size-1",  # the same
}


class Tree:
    """Every class of sglang/srt/models, with bases resolved across files."""

    def __init__(self, root):
        self.root, self.modules = root, {}

    def module(self, path):
        if path not in self.modules:
            text = path.read_text()
            tree = ast.parse(text)
            names = {}
            for node in statements(tree.body):
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    names[node.name] = node
                elif isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        names[alias.asname or alias.name] = (node.module, alias.name)
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    names[node.targets[0].id] = node.value
            self.modules[path] = (text, names)
        return self.modules[path]

    def resolve(self, path, name):
        """(path, node) of a name as seen in a file, or None outside of SGLang."""
        for _ in range(8):
            found = self.module(path)[1].get(name)
            if not isinstance(found, tuple):
                if isinstance(found, ast.Name):
                    name = found.id
                    continue
                return (path, found) if found is not None else None
            module, name = found
            if not module.startswith("sglang."):
                return None
            base = self.root.parents[2] / module.replace(".", "/")
            path = base.with_suffix(".py") if base.with_suffix(".py").exists() else base / "__init__.py"
            if not path.exists():
                return None
        return None

    def mro(self, path, cls):
        """The class and its bases, nearest first."""
        out, queue = [], [(path, cls)]
        while queue:
            p, c = queue.pop(0)
            if (p, c) in out:
                continue
            out.append((p, c))
            for base in c.bases:
                name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else None
                hit = name and self.resolve(p, name)
                if hit and isinstance(hit[1], ast.ClassDef):
                    queue.append(hit)
        return out


def statements(body):
    """Top-level statements, those under if and try included."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            yield from statements(node.body)
        else:
            yield node


def method(cls, name):
    for node in cls.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return node
    return None


def takes_pp(mro):
    for _, cls in mro:
        forward = method(cls, "forward")
        if forward:
            args = forward.args
            return any(a.arg == "pp_proxy_tensors" for a in args.args + args.kwonlyargs)
    return False


def has_range(tree, mro):
    for path, cls in mro:
        node = method(cls, "start_layer")
        if node and any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list):
            return True
    for path, cls in mro:
        init = method(cls, "__init__")
        if init is None:
            continue
        source = ast.get_source_segment(tree.module(path)[0], init)
        if "self.start_layer" in source:
            return True
        if "super().__init__(" not in source:
            return False
    return False


def window(tree, name, mro):
    if name in WINDOWS:
        return WINDOWS[name]
    for path, cls in mro:
        node = method(cls, "get_attention_sliding_window_size")
        if node:
            return returned(tree, path, node) or "-"  # a draft's own flag
    return "-"


def guarded(node):
    """Whether a function looks if the field is None before it subtracts."""
    compares = (n for n in ast.walk(node) if isinstance(n, ast.Compare))
    return any(isinstance(c, ast.Constant) and c.value is None for n in compares for c in n.comparators)


def returned(tree, path, node, depth=0):
    """The field or number that a function returns."""
    for ret in (n for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None):
        value, minus = ret.value, ""
        if isinstance(value, ast.IfExp):
            value = value.body
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub):
            value, minus = value.left, "-1" if guarded(node) else "-1!"
        if isinstance(value, ast.Constant):
            if value.value is None:
                continue
            return str(value.value)
        if isinstance(value, ast.Attribute) and not value.attr.startswith("_"):
            return value.attr + minus
        if isinstance(value, ast.Name):  # a local set from getattr(config, "sliding_window", None)
            for assign in (n for n in ast.walk(node) if isinstance(n, ast.Assign)):
                if assign.targets[0].id == value.id and isinstance(assign.value, ast.Call):
                    return assign.value.args[1].value + minus
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            if value.func.id == "getattr":
                return value.args[1].value + minus
            hit = tree.resolve(path, value.func.id)
            if hit and depth < 4 and isinstance(hit[1], ast.FunctionDef):
                return returned(tree, hit[0], hit[1], depth + 1)
    return None


def entries(value):
    if isinstance(value, ast.Name):
        return [value.id]
    return [e.id for e in value.elts if isinstance(e, ast.Name)]


def literal(path, wanted):
    """A list of strings assigned anywhere in a file; stars name other lists of the file."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, node.value)

    def strings(node):
        if isinstance(node, ast.Constant):
            return [node.value]
        if isinstance(node, ast.Starred):
            return strings(found[node.value.id])
        if isinstance(node, ast.Call):  # frozenset({...})
            return strings(node.args[0])
        return [s for e in node.elts for s in strings(e)]

    return set(strings(found[wanted]))


def backends(native):
    """Transformers classes outside of SGLang: whether its backend takes them."""
    import transformers
    from transformers import PreTrainedModel

    out = {}
    for name in dir(transformers):
        if name in native or not name[0].isupper():
            continue
        try:
            cls = getattr(transformers, name)
        except Exception:
            continue
        if isinstance(cls, type) and issubclass(cls, PreTrainedModel) and not name.endswith("PreTrainedModel"):
            out[name] = "backend" if cls.is_backend_compatible() else "refused"
    return out


def main(to):
    root = pathlib.Path(importlib.util.find_spec("sglang").submodule_search_locations[0]) / "srt"
    tree = Tree(root / "models")
    flags, windows = {}, {}
    for path in sorted((root / "models").glob("*.py")):
        value = tree.module(path)[1].get("EntryClass")
        if value is None:
            continue
        for name in entries(value):
            hit = tree.resolve(path, name)
            mro = tree.mro(*hit)
            name = hit[1].name
            flags[name] = ["native"] + ["pp"] * takes_pp(mro) + ["range"] * has_range(tree, mro)
            windows[name] = window(tree, name, mro)
    for name, flag in backends(set(flags)).items():
        flags[name] = [flag]
    for flag, (file, name) in LISTS.items():
        for arch in literal(root / file, name):
            flags.setdefault(arch, []).append(flag)
    with open(to, "w") as f:
        for name in sorted(flags):
            print(name, ",".join(flags[name]), windows.get(name, "-"), sep="\t", file=f)


if __name__ == "__main__":
    main(sys.argv[1])
