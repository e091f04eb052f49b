package model

import (
	"strings"

	"headcount/dtype"
	"headcount/problem"
)

// moondream3 has attention and MLP side by side behind one norm, and scales queries and
// values by what it reads of all projections. From some layer on there are experts, which
// ranks share out whole (vllm moondream3.py).
var moondream3 = family{
	name:          "moondream3",
	architectures: []string{"Moondream3ForCausalLM", "HfMoondream"},
	types:         []string{"moondream3_text"},
	resolve: func(r *reader) *Model {
		layers, k := r.layers(), r.moondreamLayer()
		first := r.needed("moe_start_layer")
		if r.err != nil {
			return r.model()
		}
		kinds := make([]bool, layers)
		for i := range kinds {
			kinds[i] = i >= first
		}
		m := r.decoder(decoder{
			heads: k.heads, mlpBias: true, normBias: true, norms: []string{"ln"}, form: formPerKind(kinds, k.form),
			rotary: rotary{dim: 32}, headBias: true, untied: true, everyStage: true, names: moondreamNames,
		})
		for i := range m.Outer {
			if p := &m.Outer[i]; p.Part == Norm {
				p.Part = Other
			}
		}
		for i, l := range m.Layers {
			if kinds[i] {
				l.Buffers = k.buffers()
				m.Experts = k.experts.Size
			}
		}
		return m
	},
}

var moondreamNames = strings.NewReplacer("model.embed_tokens.weight", "model.text.wte", "model.norm", "model.text.post_ln", "lm_head", "model.text.lm_head",
	"self_attn.q_proj", "attn.qkv", "self_attn.k_proj", "attn.qkv", "self_attn.v_proj", "attn.qkv", "self_attn.o_proj", "attn.proj",
	"mlp.up_proj", "mlp.fc1", "mlp.down_proj", "mlp.fc2")

// A moondreamLayer is the sizes of a layer.
type moondreamLayer struct {
	heads   heads
	hidden  int
	experts Axis
	inner   int // width of an expert
}

func (r *reader) moondreamLayer() moondreamLayer {
	k := moondreamLayer{hidden: r.size("hidden_size"), inner: r.needed("moe_expert_inner_dim")}
	k.heads = r.quotient(r.heads())
	k.experts = Axis{Size: r.needed("moe_num_experts"), Split: Sharded, Drops: true, Field: "moe.n_experts"}
	r.needed("max_position_embeddings")
	r.times("hidden_size", 3, k.hidden)
	r.times("moe.expert_inner_dim", 2*k.inner, k.hidden)
	return k
}

// needed is a number that may be 0 and not null.
func (r *reader) needed(key string) int {
	n, ok := r.whole(key, 0)
	if !ok {
		r.fail(problem.MissingField, key, "%s needs a number here", r.className())
	}
	return n
}

// form is a layer without experts or with them.
func (k moondreamLayer) form(sparse bool) *form {
	params := attentionParams("self_attn", k.heads, k.hidden, true, true)
	for i := range params {
		if params[i].Role == Output {
			params[i].Cols = sharded(k.hidden, "hidden_size")
		}
	}
	each, read := queryHeads(k.heads.query, 1), whole(3*k.hidden)
	params = append(params,
		Param{Name: "attn.tau.alpha", Part: Attention, Rows: each},
		Param{Name: "attn.tau.wq", Part: Attention, Rows: each, Cols: read},
		Param{Name: "attn.tau.wv", Part: Attention, Rows: each, Cols: read})
	if !sparse {
		return &form{caches: []Cache{k.heads.cache(0)}, params: params}
	}
	router := linear("mlp.router", MoERouter, whole(k.experts.Size), whole(k.hidden))
	router.Linear = false
	params = append(params, router, bias("mlp.router", MoERouter, whole(k.experts.Size)),
		Param{Name: "mlp.fc1.weight", Part: MLP, Rows: k.experts, Cols: whole(2 * k.inner * k.hidden)},
		Param{Name: "mlp.fc2.weight", Part: MLP, Rows: k.experts, Cols: whole(k.inner * k.hidden)})
	return &form{caches: []Cache{k.heads.cache(0)}, params: params, alone: true}
}

// buffers are where each expert is, and a bias that the kernel adds to what it multiplies by.
func (k moondreamLayer) buffers() []Param {
	return []Param{
		{Name: "mlp.expert_map", Part: MLP, Rows: whole(k.experts.Size), DType: dtype.Int32},
		{Name: "mlp.fused_w1_bias", Part: MLP, Rows: k.experts, Cols: whole(2 * k.inner), DType: dtype.Float32},
	}
}

// moondreamTower is SigLIP's encoder over projected patches, and an MLP over what is seen of
// the whole and of a part, side by side.
func moondreamTower(t *towers) {
	const name = "model.vision"
	c := t.sub("vision_config")
	width, patch := c.size("enc_dim"), c.size("enc_patch_size")
	t.conv(name+".patch_emb", width, 3*patch*patch, true)
	t.plain(name+".pos_emb", square(c.size("crop_size"), patch), width)
	t.vit(vit{name: name + ".blocks", layers: c.size("enc_n_layers"), width: width, heads: c.size("enc_n_heads"), mlp: c.size("enc_ff_dim"),
		names: vitNames{"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2", []string{"ln1", "ln2"}}}.biased())
	t.norm(name+".post_ln", width, true)
	t.mlp([]string{name + ".proj_mlp.fc1"}, name+".proj_mlp.fc2", 2*width, c.size("proj_inner_dim"), t.hidden, false, true)
}
