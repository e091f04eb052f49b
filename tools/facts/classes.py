"""Write model/classes.tsv, what each configuration class adds to a config.json, and
model/classtypes.tsv, the types that it holds a file's fields to.

    HF_HUB_OFFLINE=1 python tools/facts/classes.py

Run it in an environment that has vLLM and the Transformers release that it uses. One line
per model_type, sorted: the name, a tab, a JSON object. model/classes.go says what its keys
mean. What could not be expressed is listed on stderr.
"""

import collections.abc
import dataclasses
import inspect
import json
import math
import os
import sys
import types
import typing

import formulas

from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

# What no reader of geometry asks for: it would double the table.
NOISE = {"return_dict", "output_hidden_states", "output_attentions", "id2label", "label2id", "problem_type", "num_labels",
         "transformers_version", "architectures", "dtype", "chunk_size_feed_forward", "use_cache", "torch_dtype", "name_or_path",
         "keys_to_ignore_at_inference", "is_composition", "has_no_defaults_at_init", "model_type", "attribute_map",
         "sub_configs", "pretraining_tp", "stage_names", "layerdrop", "image_mean", "image_std", "gradient_checkpointing"}
NOISE_PARTS = ("token_id", "token_index", "dropout", "initializer", "_eps", "epsilon", "loss", "_coef", "classifier",
               "mask_time", "mask_feature", "_init_", "init_std", "jitter", "_penalty", "_pdrop", "drop_path", "_prob",
               "ctc_", "beams", "summary_", "conv_bias_", "noise", "cost", "_weight_", "weight_init", "scale_init")


def noise(key):
    return key in NOISE or key.startswith("_") or any(p in key for p in NOISE_PARTS)


def jsonable(v):
    if isinstance(v, tuple):
        v = list(v)
    if isinstance(v, float) and not math.isfinite(v):
        return False, None
    if v is None or isinstance(v, (bool, int, float, str)):
        return True, v
    if isinstance(v, (list, dict)):
        try:
            text = json.dumps(v)
        except TypeError:
            return False, None
        return len(text) < 700, json.loads(text)
    return False, None


def fields_of(cls):
    """Fields of the class with their defaults, in the order in which they are set."""
    own_init = next((c for c in cls.__mro__ if "__init__" in c.__dict__ and c not in PreTrainedConfig.__mro__
                     and not hasattr(c.__dict__["__init__"], "__wrapped__")
                     and not c.__dict__["__init__"].__code__.co_filename.startswith("<")), None)
    out = {}
    if own_init is not None:
        for p in inspect.signature(own_init.__dict__["__init__"]).parameters.values():
            if p.name == "self" or p.kind == p.VAR_KEYWORD:
                continue
            out[p.name] = None if p.default is p.empty else p.default
        parent = own_init.__mro__[1]
        if parent not in PreTrainedConfig.__mro__:
            out = fields_of(parent)[0] | out
        return out, True
    base = {f.name for f in dataclasses.fields(PreTrainedConfig)} - {"is_encoder_decoder"}
    for f in dataclasses.fields(cls):
        if f.name in base:
            continue
        if f.default is not dataclasses.MISSING:
            out[f.name] = f.default
        elif f.default_factory is not dataclasses.MISSING:
            out[f.name] = f.default_factory()
        else:
            out[f.name] = None
    return out, False


def properties(cls, fields):
    """Attributes that the class computes when they are read."""
    out, skipped = {}, []
    for c in reversed(cls.__mro__):
        if c in PreTrainedConfig.__mro__:
            continue
        for k, v in c.__dict__.items():
            if not isinstance(v, property) or noise(k) or k in ("out_features", "out_indices"):
                continue
            t = formulas.Translator(cls, fields, PreTrainedConfig)
            try:
                tree = formulas.ast.parse(formulas.textwrap.dedent(inspect.getsource(v.fget)))
                body = [s for s in tree.body[0].body if formulas.matters(s) and not (
                    isinstance(s, formulas.ast.Expr) and isinstance(s.value, formulas.ast.Constant))]
                t.scope = v.fget.__globals__
                if len(body) != 1 or not isinstance(body[0], formulas.ast.Return):
                    raise formulas.Untranslatable("more than a return")
                out[k] = t.expr(body[0].value)
            except formulas.Untranslatable as e:
                skipped.append(f"property {k}: {e}")
    return out, skipped


def setters(cls, fields, out):
    """Formulas of properties that set something when the file has them."""
    lines = []
    for c in reversed(cls.__mro__):
        if c in PreTrainedConfig.__mro__:
            continue
        for k, v in c.__dict__.items():
            if not isinstance(v, property) or v.fset is None or noise(k):
                continue
            t = formulas.Translator(cls, fields, PreTrainedConfig)
            body = formulas.ast.parse(formulas.textwrap.dedent(inspect.getsource(v.fset))).body[0].body[-1:]
            t.scope, t.params, t.frame = v.fset.__globals__, {"value"}, (c, k)
            for st in body:
                t.statement(st, "")
            for line in t.out:
                target, expr = line.split(" = ", 1)
                expr = formulas.re.sub(r"\bvalue\b", f"given('{k}')", expr)
                lines.append(f"{target} = {expr} if isgiven('{k}') else {target}")
    return out + (["super"] if "super" not in out else []) + lines if lines else out


# What a constructor computes in a way that formulas.py cannot follow, by model_type: for each
# attribute the formula that stands in for it, before or after the base class's part.
REST = "rest()"  # the file's keys that are no fields
TEXT = "rest('text_config')"  # those of them that are fields of the text config
BEFORE = {
    "qwen2_vl": {"text_config": TEXT}, "qwen2_5_vl": {"text_config": TEXT}, "paddleocr_vl": {"text_config": TEXT},
    "hunyuan_vl": {"text_config": REST}, "glm5_next": {"text_config": REST}, "fuyu": {"text_config": REST},
    "minimax_m2": {"given.partial_rotary_factor": "given('partial_rotary_factor', attr('rotary_dim', given('rotary_dim')) / head_dim) "
                   "if attr('rotary_dim', given('rotary_dim')) is not None else given('partial_rotary_factor')"},
    "gpt_neo": {"attention_layers": "repeated(attention_types)"},
    "modernbert-decoder": {"layer_types": "['sliding_attention' if i % given('global_attn_every_n_layers', 3) else 'full_attention'"
                           " for i in range(num_hidden_layers)]"},
    "olmo_hybrid": {"layer_types": "['full_attention' if i % 4 == 3 or i == num_hidden_layers - 1 and num_hidden_layers < 4 "
                    "else 'linear_attention' for i in range(num_hidden_layers)]"},
    "smollm3": {"layer_types": "['full_attention' if i or not use_sliding_window or sliding_window is None else 'sliding_attention'"
                " for i in no_rope_layers]"},
    "ovis": {"text_config": "llm_config"},
    "isaac": {"text_config": REST},
    "deberta": {"pos_att_type": "split(pos_att_type, '|') if kind(pos_att_type) == 'str' else pos_att_type"},
    "deberta-v2": {"pos_att_type": "split(pos_att_type, '|') if kind(pos_att_type) == 'str' else pos_att_type"},
}
AFTER = {
    "step3p5": {
        "rope_parameters": "dict([[t, {'rope_type': 'default', 'rope_theta': (_theta[position(layer_types, t)] if kind(_theta) == 'list' else _theta), "
                           "**({'partial_rotary_factor': _partial[position(layer_types, t)]} if _partial else {}), "
                           "**(_scaling if _scaling and t == 'full_attention' else {})}] for t in set(layer_types)])",
    },
}
# Temporaries that these need, and attributes whose own formulas they replace.
NEEDS = {"step3p5": ["_theta = take('rope_theta', 10000.0)", "_partial = take('partial_rotary_factors', None)",
                     "_scaling = take('rope_scaling', None)"]}
ALWAYS = {"minimax_m2", "gpt_neo", "ovis", "deberta", "deberta-v2", "step3p5"}
SUB_CONFIGS = {"ovis": {"text_config": "auto:", "visual_tokenizer_config": "auto:"},
               "inkling_mm_model": {"text_config": "inkling_model"},
               "ultravox": {"text_config": "auto:llama", "audio_config": "auto:whisper"}}


def by_hand(cls, out, translator):
    mt = cls.model_type
    before, after = BEFORE.get(mt, {}), AFTER.get(mt, {})
    if mt in SUB_CONFIGS:
        translator.sub_configs.update(SUB_CONFIGS[mt])
    if not before and not after:
        return out
    sign = "=" if mt in ALWAYS else "?="
    out = [line for line in out if line.split(" ")[0] not in {*before, *after}]
    at = out.index("super") if "super" in out else len(out)
    head, tail = out[:at], out[at + 1:]
    consumed = {line.split("take(")[1].split(",")[0] for line in NEEDS.get(mt, [])}
    head = [line for line in head if not any(f"take({key}" in line for key in consumed)]
    return [*head, *(f"{k} {sign} {v}" for k, v in before.items()), *NEEDS.get(mt, []), "super",
            *tail, *(f"{k} {sign} {v}" for k, v in after.items())]


def key_of(cls, known):
    """The table's key of a config class: its model_type if that leads to it, else its name."""
    mt = getattr(cls, "model_type", "")
    return mt if mt and known.get(mt) is cls else cls.__name__


def labels_of(cls):
    """How many labels the class tells apart when the file names none; the base class 2."""
    try:
        return cls().num_labels
    except Exception:  # a class that does not build without a file
        return 2


def describe(cls, known, report):
    fields, by_init = fields_of(cls)
    t = formulas.Translator(cls, fields, PreTrainedConfig)
    out = t.run("__init__" if by_init else "__post_init__")
    props, skipped = properties(cls, fields)
    for s in t.skipped + skipped:
        report.append(s)

    entry = {}
    if cls.attribute_map:
        entry["alias"] = dict(cls.attribute_map)

    subs, auto = {}, set()
    specs = getattr(cls, "sub_configs_defaults", None) or {}
    init_kwargs = {}
    for attr, spec in specs.items():
        if inspect.isclass(spec.config_class) and issubclass(spec.config_class, PreTrainedConfig):
            subs[attr] = key_of(spec.config_class, known)
        else:
            subs[attr] = "auto:" + (spec.model_type or "")
        if spec.optional:
            subs[attr] = "optional:" + subs[attr]
        ok, kw = jsonable(spec.init_kwargs)
        if ok and kw:
            init_kwargs[attr] = kw
    by_hand(cls, [], t)
    for attr, sub in t.sub_configs.items():
        if attr not in subs:
            subs[attr] = sub if isinstance(sub, str) else key_of(sub, known)

    read = " ".join([*out, *props.values()])
    default = {}
    for k, v in fields.items():
        if noise(k) and not formulas.re_word(k, read.replace(f"{k} =", "").replace(f"given.{k}", "")):
            continue
        ok, v = jsonable(None if k in subs else v)
        if ok and not (k == "is_encoder_decoder" and v is False):
            default[k] = v
    # Plain class attributes that a reader could take for a field (is_causal and the like).
    for c in reversed(cls.__mro__):
        if c in PreTrainedConfig.__mro__:
            continue
        for k, v in c.__dict__.items():
            if k in fields or noise(k) or k.startswith(("base_", "sub_configs", "default_", "ignore_keys")) or callable(v):
                continue
            if isinstance(v, (bool, int, float, str)) and k not in ("is_composition",):
                default[k] = v
    if (labels := labels_of(cls)) != 2:
        default["num_labels"] = labels
    entry["default"] = default
    if subs:
        entry["sub_configs"] = subs
    if init_kwargs:
        entry["sub_init"] = init_kwargs
        merged = [attr for attr in init_kwargs if f'{{**self.sub_configs_defaults["{attr}"].init_kwargs, ' in inspect.getsource(cls)]
        if merged:
            entry["sub_merged"] = merged
    text = [a for a in ("text_encoder", "decoder", "generator", "text_config") if a in subs or a in fields]
    if len(text) == 1 and text[0] in subs:
        entry["text_attr"] = text[0]
    elif len(text) > 1:
        entry["text_attr"] = ",".join(text)

    out = by_hand(cls, setters(cls, fields, out), t)
    relevant = [line for line in out if not noise(line.split(" ")[0].removeprefix("given.")) or line.startswith("_c") or line.startswith("_")]
    relevant = prune(relevant)
    if relevant and relevant[-1] == "super":
        relevant.pop()
    if relevant:
        entry["derived"] = relevant
    if props:
        entry["property"] = props
    rope = rope_rule(cls, fields)
    if rope:
        entry["rope"] = rope
    if not by_init and hasattr(cls, "__class_validators__"):
        conditions = unwanted(cls) + unsettable(cls) + checks(cls, fields, report)
        if conditions:
            entry["checks"] = conditions
        owner = next((c for c in cls.__mro__ if "validate_layer_type" in c.__dict__), None)
        if owner in PreTrainedConfig.__mro__:
            entry["layers"] = True
        entry["strict"] = strict_types(cls)
    plan = getattr(cls, "base_model_tp_plan", None)
    if plan:
        entry["tp_plan"] = plan
    return entry


def prune(lines):
    """Drop temporaries that nothing reads."""
    while True:
        used = " ".join(l.split(" = ", 1)[1] for l in lines if " = " in l)
        used += " ".join(l.split(" ?= ", 1)[1] for l in lines if " ?= " in l)
        kept = []
        for l in lines:
            name = l.split(" ")[0]
            if name.startswith("_") and not name.startswith("_drop") and "take(" not in l:
                others = [o for o in lines if o is not l]
                if not any(word(name, o.split("= ", 1)[1] if "= " in o else "") for o in others if o.split(" ")[0] != name):
                    continue
            kept.append(l)
        if len(kept) == len(lines):
            return kept
        lines = kept


def word(name, text):
    return formulas.re_word(name, text)


# Classes that replace the base class's conversion of rotary parameters, by the model_type of
# the class that does. Keys as in model/classrope.go.
ROPE = {
    "beam": {"none": True}, "gemma4_text": {"none": True, "layers_only": True}, "diffusion_gemma_text": {"none": True},
    "embedding_gemma2_text": {"none": True}, "gemma4_unified_text": {"none": True}, "mellum": {"none": True},
    "laguna": {"none": True, "layers_only": True}, "mimo_v2_flash": {"none": True}, "zaya": {"none": True},
    "gemma3_text": {"layers": True, "local_key": "rope_local_base_freq"},
    "gemma3n_text": {"layers": True, "local_key": "rope_local_base_freq"},
    "t5gemma2_text": {"layers": True, "local_key": "rope_local_base_freq"},
    "t5gemma2_decoder": {"layers": True, "local_key": "rope_local_base_freq"},
    "modernbert": {"layers": True, "scale_both": True, "theta_key": "global_rope_theta", "local_key": "local_rope_theta"},
    "modernbert-decoder": {"layers": True, "scale_both": True, "theta_key": "global_rope_theta", "local_key": "local_rope_theta"},
    "olmo3": {"layers": True},
    "gpt_neox": {"theta_key": "rotary_emb_base", "partial_key": "rotary_pct", "partial": 0.25},
    "gpt_neox_japanese": {"theta_key": "rotary_emb_base", "partial_key": "rotary_pct", "partial": 1.0},
    "phi3": {"partial": 1.0, "keep_partial": True, "as_longrope": True},
    "phi4_multimodal": {"partial": 1.0, "keep_partial": True, "as_longrope": True},
    "qwen2_vl_text": {"as_default": True, "no_partial": True}, "qwen2_5_vl_text": {"as_default": True, "no_partial": True},
    "minimax_m2": {}, "hunyuan_vl_text": {}, "cohere_compass_text": {}, "neomme": {"none": True},
}


# Classes that take the trained length of scaled rotary parameters for an attribute of their own
# (configuration_phimoe.py, validate_rope).
OWN_TRAINED = ["phimoe"]


LETTERS = {int: "i", float: "f", str: "s", bool: "b", type(None): "n", dict: "d", list: "l"}


def type_code(t):
    """What a field accepts of a JSON file, as model/classcheck.go reads it; "*" for anything."""
    origin, args = typing.get_origin(t), typing.get_args(t)
    if t in LETTERS:
        return LETTERS[t]
    if origin in (typing.Union, types.UnionType):
        parts = {type_code(a) for a in args}
        return "*" if "*" in parts else "".join(sorted(parts, key=lambda p: (len(p), p)))
    if origin in (list, collections.abc.Sequence):
        inner = type_code(args[0]) if args else "*"
        return "l" if inner == "*" else f"l({inner})"
    if origin is dict:
        return "d"
    if origin is tuple or t is tuple:
        return ""  # no file has one
    if origin is typing.Literal:
        return "c(" + "|".join(str(a) for a in args) + ")" if all(isinstance(a, str) for a in args) else "*"
    if inspect.isclass(t) and issubclass(t, PreTrainedConfig):
        return ""
    if getattr(t, "__name__", "") == "RopeParameters":
        return "d"
    return "*"


def strict_types(cls):
    """Fields of a strict class by their type: code → fields."""
    out = {}
    for f in dataclasses.fields(cls):
        code = type_code(f.type)
        if code != "*":
            out.setdefault(code, []).append(f.name)
    return out


def checks(cls, fields, report):
    """Conditions under which a class refuses itself once constructed."""
    out = []
    for name in ("validate_architecture", "validate_layer_type"):
        owner = next((c for c in cls.__mro__ if name in c.__dict__), None)
        if owner is None or owner in PreTrainedConfig.__mro__:
            continue
        fn = owner.__dict__[name]
        if not inspect.isfunction(fn):
            continue
        t = formulas.Translator(cls, fields, PreTrainedConfig)
        t.scope, t.frame = fn.__globals__, (owner, name)
        body = formulas.ast.parse(formulas.textwrap.dedent(inspect.getsource(fn))).body[0].body
        out += raises(t, body, "", report)
    return out


def raises(t, body, guard, report):
    """The tests of statements under which they raise; guard is what has to hold besides."""
    out, local = [], {}
    for st in body:
        for name, value in local.items():
            st = formulas.Substitute(name, value).visit(st)
        if isinstance(st, (formulas.ast.Assign, formulas.ast.AnnAssign)) and isinstance(target := getattr(st, "target", None) or st.targets[0], formulas.ast.Name):
            local[target.id] = st.value
        elif isinstance(st, formulas.ast.If) and not st.orelse and not guard and all(isinstance(s, formulas.ast.If) for s in st.body):
            out += raises(t, st.body, f"({t.expr(st.test)}) and ", report)
        elif isinstance(st, formulas.ast.If) and len(st.body) == 1 and isinstance(st.body[0], formulas.ast.Raise) and not st.orelse:
            try:
                test = guard + t.expr(st.test)
                if formulas.re.search(r"[a-z]\w*\.\w+\.\w", test):
                    raise formulas.Untranslatable("an attribute of a nested config's own")
                out.append(test)
            except formulas.Untranslatable as e:
                report.append(f"check {formulas.ast.unparse(st.test)[:80]}: {e}")
        elif not isinstance(st, (formulas.ast.Expr, formulas.ast.Return)):
            report.append(f"check {formulas.ast.unparse(st)[:80]!r}")
    return out


def unwanted(cls):
    """Fields whose truth in the file makes the constructor raise, as conditions."""
    fn = cls.__dict__.get("__post_init__")
    if not inspect.isfunction(fn):
        return []
    body = formulas.ast.parse(formulas.textwrap.dedent(inspect.getsource(fn))).body[0].body
    out = []
    for st in body:
        if isinstance(st, formulas.ast.If) and isinstance(st.body[0], formulas.ast.Raise):
            popped = formulas.re.fullmatch(r"kwargs\.pop\('(\w+)', False\)", formulas.ast.unparse(st.test))
            out += [f"given('{popped[1]}', False)"] if popped else []
    return out


def unsettable(cls):
    """Names that the class computes and a file must not give, as conditions."""
    out = []
    for name in sorted(set(dir(cls)) - set(dir(PreTrainedConfig))):
        held = getattr(cls, name)
        if isinstance(held, property) and held.fset is None:
            try:
                cls(**{name: 1})
            except AttributeError as e:
                names = [name] + [k for k, v in cls.attribute_map.items() if v == name]
                out += [f"isgiven('{n}')" for n in names] if "no setter" in str(e) else []
            except Exception:  # a value of another kind is asked for first: it is popped, not set
                pass
    return out


def rope_rule(cls, fields):
    """How the class brings rotary parameters into one form, as far as it departs from the base class."""
    if "rope_parameters" not in fields:
        return None
    owner = next(c for c in cls.__mro__ if "convert_rope_params_to_dict" in c.__dict__)
    out = {} if owner.__name__ == "RotaryEmbeddingConfigMixin" else dict(ROPE[owner.model_type])
    theta = getattr(cls, "default_theta", None)
    if isinstance(theta, dict):
        if out.get("layers"):
            out["theta"], out["local"] = theta["global"], theta["local"]
    elif theta not in (None, 10000.0):
        out["theta"] = theta
    if cls.default_rope_type != "default":
        out["type"] = cls.default_rope_type
    if cls.model_type in OWN_TRAINED:
        out["own_trained"] = True
    return out or None


def main():
    known = {mt: CONFIG_MAPPING[mt] for mt in CONFIG_MAPPING_NAMES}
    import vllm.transformers_utils.config as vc

    own = {}
    for mt in vc._CONFIG_REGISTRY:
        try:
            own[mt] = vc._CONFIG_REGISTRY[mt]
        except Exception as e:  # a class whose module needs what is not installed
            print(f"{mt}: {type(e).__name__}: {e}", file=sys.stderr)
    known.update(own)
    for mt, cls in CONFIG_MAPPING._extra_content.items():  # what vLLM's modules register on import
        known.setdefault(mt, cls)

    # Classes that only other classes refer to.
    todo, table, reports = dict(known), {}, {}
    while todo:
        mt, cls = todo.popitem()
        report = []
        table[mt] = describe(cls, known, report)
        if mt == cls.__name__ and cls.model_type:
            table[mt] = {"model_type": cls.model_type, **table[mt]}
        if report:
            reports[mt] = report
        t = formulas.Translator(cls, fields_of(cls)[0], PreTrainedConfig)
        t.run("__init__" if fields_of(cls)[1] else "__post_init__")
        refs = [s.config_class for s in (getattr(cls, "sub_configs_defaults", None) or {}).values()]
        for sub in [*refs, *t.sub_configs.values()]:
            if sub and inspect.isclass(sub) and issubclass(sub, PreTrainedConfig) and sub is not PreTrainedConfig:
                k = key_of(sub, known)
                if k not in table and k not in todo:
                    todo[k] = sub
    # Equal plans and types are written once.
    plans, seen = {}, {}
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "model")
    with open(os.path.join(here, "classtypes.tsv"), "w") as f:
        for mt in sorted(table):
            strict = table[mt].pop("strict", None)
            if strict is None:
                continue
            line = " ".join(f"{code}={','.join(names)}" for code, names in sorted(strict.items()))
            first = seen.setdefault(line, mt)
            f.write(f"{mt}\t{line if first == mt else '=' + first}\n")
    with open(os.path.join(here, "classes.tsv"), "w") as f:
        for mt in sorted(table):
            plan = table[mt].get("tp_plan")
            if plan:
                first = plans.setdefault(json.dumps(plan, sort_keys=True), mt)
                if first != mt:
                    table[mt]["tp_plan"] = "=" + first
            f.write(mt + "\t" + json.dumps(table[mt], separators=(",", ":"), ensure_ascii=True) + "\n")
    for mt in sorted(reports):
        for line in reports[mt]:
            print(f"{mt}: {line}", file=sys.stderr)


if __name__ == "__main__":
    main()
