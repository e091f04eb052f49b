package model

import (
	"slices"
	"strconv"
)

// gemma4 has sliding layers and full ones with wider heads; the last layers may read
// earlier layers' caches, have an MLP twice as wide, and each layer an embedding of its
// own. The sparse model has routed experts beside each layer's MLP (vllm gemma4.py;
// gemma4_mm.py wraps it beside towers).
var gemma4 = family{
	name:     "gemma4",
	textOnly: true,
	architectures: []string{"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration",
		"Gemma4TextModel", "Gemma4Model", "DiffusionGemmaForBlockDiffusion"},
	types: []string{"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text", "diffusion_gemma", "diffusion_gemma_text"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		kinds := r.gemma4Kinds(layers, h)
		biased, e := r.flag("attention_bias", false), r.gemma4Experts()
		perLayer := r.opt("hidden_size_per_layer_input", 0)
		vocab := r.opt("vocab_size_per_layer_input", r.size("vocab_size"))
		r.times("hidden_size_per_layer_input", perLayer, layers)
		if r.err != nil {
			return r.model()
		}
		d := decoder{
			gated: true, heads: h, everyStage: true, norms: sandwich, rotary: rotary{widths: gemma4Widths(kinds)},
			form: formPerKind(kinds, func(k gemmaKind) *form { return k.form(hidden, biased) }),
			extra: func(int) []Param {
				return append(e.params(hidden), gemma4PerLayer(perLayer, hidden)...)
			},
		}
		m := r.decoder(d)
		m.Experts = e.count
		m.mostHeads(kinds)
		m.turnWidths(kinds)
		if perLayer > 0 {
			m.Outer = append(m.Outer, everywhere(perLayerEmbedding(vocab, perLayer, hidden, layers)...)...)
			for _, name := range []string{"embed_scale_per_layer", "per_layer_input_scale", "per_layer_projection_scale"} {
				m.Buffers = append(m.Buffers, everywhere(Param{Name: "model." + name, Part: Other, Rows: whole(1)})...)
			}
		}
		for _, l := range distinct(m.Layers) {
			l.Buffers = []Param{{Name: "layer_scalar", Part: Other, Rows: whole(1)}}
			if e.count > 0 {
				l.Buffers = append(l.Buffers, Param{Name: "router.root_size", Part: MoERouter, Rows: whole(1)})
			}
		}
		return normalized(m)
	},
}

// mostHeads makes whole-model values the most of any layer.
func (m *Model) mostHeads(kinds []gemmaKind) {
	m.KVHeads, m.HeadDim = 0, 0
	for _, k := range kinds {
		m.KVHeads, m.HeadDim = max(m.KVHeads, k.kv), max(m.HeadDim, k.key)
	}
}

// turnWidths gives layers whose heads are of another width than the last of their type a
// rope for theirs.
func (m *Model) turnWidths(kinds []gemmaKind) {
	widths := gemma4Widths(kinds)
	ropes := m.Ropes
	m.Layers = turned(m.Layers, func(layer int) string {
		k := kinds[layer]
		kind := k.layerType()
		i := slices.IndexFunc(ropes, func(r Rope) bool { return r.LayerType == kind })
		if i < 0 || k.key == widths[kind] {
			return ""
		}
		own := ropes[i]
		own.Width, own.Dim, own.LayerType = k.key, own.Dim*k.key/widths[kind], kind+" of "+strconv.Itoa(k.key)
		if !slices.Contains(m.Ropes, own) {
			m.Ropes = append(m.Ropes, own)
		}
		return own.LayerType
	})
}

func (k gemmaKind) layerType() string {
	if k.window > 0 {
		return "sliding_attention"
	}
	return "full_attention"
}

// gemma4Widths are the head dims by layer type.
func gemma4Widths(kinds []gemmaKind) map[string]int {
	widths := map[string]int{}
	for _, k := range kinds {
		widths[k.layerType()] = k.key
	}
	return widths
}

// gemma4Kinds reads what each layer is. Full layers have heads of their own, which the
// class keeps apart for each layer.
func (r *reader) gemma4Kinds(layers int, h heads) []gemmaKind {
	own := layers - r.kvShared(layers)
	windows, width := r.windows(layers), r.size("intermediate_size")
	wide := r.flag("use_double_wide_mlp", false)
	kinds := make([]gemmaKind, layers)
	for i := range kinds {
		k := gemmaKind{heads: h, window: windows[i], shared: i >= own, mlp: width}
		k.key = r.perLayer(i, "head_dim", h.key)
		k.value, k.kv = k.key, r.perLayer(i, "num_key_value_heads", h.kv)
		if wide && k.shared && own > 0 {
			k.mlp = 2 * width
		}
		kinds[i] = k
	}
	return kinds
}

// gemma4Experts are the routed experts beside an MLP: a router with scales, and three more
// norms.
type gemma4Experts struct{ experts }

func (r *reader) gemma4Experts() gemma4Experts {
	key := "moe_intermediate_size"
	if !r.Has(key) && r.Has("expert_intermediate_size") {
		key = "expert_intermediate_size"
	}
	e := gemma4Experts{r.experts("", "num_experts", key)}
	e.router = "router.proj"
	return e
}

func (e gemma4Experts) params(hidden int) []Param {
	if e.count == 0 {
		return nil
	}
	params := slices.Clone(e.experts.params(hidden))
	for _, name := range []string{"post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"} {
		params = append(params, norm(name, hidden))
	}
	return append(params,
		Param{Name: "router.scale", Part: MoERouter, Rows: whole(hidden)},
		Param{Name: "router.per_expert_scale", Part: MoERouter, Rows: whole(e.count)})
}

// gemma4PerLayer is what takes a layer's own embedding in, width elements wide.
func gemma4PerLayer(width, hidden int) []Param {
	if width == 0 {
		return nil
	}
	return []Param{
		linear("per_layer_input_gate", Other, whole(width), whole(hidden)),
		linear("per_layer_projection", Other, whole(hidden), whole(width)),
		norm("post_per_layer_input_norm", hidden),
	}
}
