package model

import (
	"headcount/attn"
	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/problem"
)

// minimaxM3 attends in most layers to blocks of tokens that an index chooses, of as many
// heads as there are KV heads and with a key of its own. The first layers are dense, in
// attention and in MLP (vllm models/minimax_m3).
var minimaxM3 = family{
	name:          "minimax_m3",
	textOnly:      true,
	architectures: []string{"MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"},
	types:         []string{"minimax_m3_text"},
	resolve: func(r *reader) *Model {
		hidden, h := r.size("hidden_size"), r.heads()
		e := r.experts("block_sparse_moe", "num_local_experts", "intermediate_size")
		e.projections, e.routerDType = mixtralProjections, dtype.Float32
		e.shared, e.sharedWidth = "block_sparse_moe.shared_experts", r.times("n_shared_experts", r.opt("n_shared_experts", 0), e.width)
		if r.flag("use_routing_bias", false) {
			e.scoreBias = "block_sparse_moe.e_score_correction_bias"
		}
		d := decoder{
			gated: true, heads: h, qkNorm: normPerHead, untied: true,
			intermediate: r.opt("dense_intermediate_size", 0),
			experts:      e,
			nextN:        r.nextAt("num_mtp_modules", 1), nextJoin: []Param{
				linear("eh_proj", Other, whole(hidden), whole(2*hidden)),
				norm("enorm", hidden), norm("hnorm", hidden), norm("final_layernorm", hidden)},
		}
		if freq, ok := r.List("moe_layer_freq"); ok {
			d.sparse = r.marked("moe_layer_freq", freq)
		}
		if freq, ok := r.Object("sparse_attention_config").Get("sparse_attention_freq"); ok && freq.Kind() != checkpoint.Null && r.err == nil {
			const key = "sparse_attention_config.sparse_attention_freq"
			if freq.Kind() != checkpoint.List {
				r.fail(problem.BadValue, key, "%v is not a list", freq.Any())
			}
			r.chooseBlocks(&d, hidden, r.marked(key, freq.List()))
		}
		return r.decoder(d)
	},
}

// chooseBlocks gives an index to the chosen layers and to those of MTP. Where none is chosen
// the config need not describe it, and then there is no MTP.
func (r *reader) chooseBlocks(d *decoder, hidden int, chosen func(layer int) bool) {
	some := false
	for layer := range r.layers() {
		some = some || chosen(layer)
	}
	if width, _ := r.Object("sparse_attention_config").Get("sparse_index_dim"); !some && width.Kind() == checkpoint.Null {
		d.nextN = 0
		return
	}
	f := r.blockSparse(d.heads, hidden)
	d.nextForm = f
	d.form = func(layer int) *form {
		if chosen(layer) {
			return f
		}
		return nil
	}
}

// blockSparse is attention to the blocks that an index chooses. The index's keys keep the
// model's dtype.
func (r *reader) blockSparse(h heads, hidden int) *form {
	const key = "sparse_attention_config"
	n, width := r.within(key, "sparse_num_index_heads", 0), r.within(key, "sparse_index_dim", 0)
	switch {
	case r.err != nil:
	case n == 0:
		r.fail(problem.MissingField, key+".sparse_num_index_heads", "missing, and the class has no default for it")
	case width == 0:
		r.fail(problem.MissingField, key+".sparse_index_dim", "missing, and the class has no default for it")
	case n != h.kv:
		r.fail(problem.Unsupported, key, "%d heads of the index and %d KV heads: not as many", n, h.kv)
	}
	index := Cache{Kind: Indexer, DType: dtype.BFloat16,
		Attn: attn.Geometry{Arch: attn.MHA, QueryHeads: n, KVHeads: 1, KeyDim: width}}
	params := attentionParams("self_attn", h, hidden, false, false)
	return &form{
		caches: []Cache{index, h.cache(0)},
		params: append(params,
			linear("self_attn.index_q_proj", Attention, kvHeads(n, width), whole(hidden)),
			linear("self_attn.index_k_proj", Attention, whole(width), whole(hidden)),
			norm("self_attn.q_norm", h.key), norm("self_attn.k_norm", h.key),
			norm("self_attn.index_q_norm", width), norm("self_attn.index_k_norm", width)),
	}
}

// marked returns whether a layer's entry of a list is not 0, false beyond its end.
func (r *reader) marked(key string, list []checkpoint.Value) func(layer int) bool {
	on := make([]bool, len(list))
	for i, v := range list {
		n, isInt := v.Int()
		if !isInt {
			r.fail(problem.BadValue, key, "entry %d is not a whole number", i)
		}
		on[i] = n != 0
	}
	return func(layer int) bool { return layer < len(on) && on[layer] }
}

// minimaxM3Tower is CLIP's encoder without its positions and last norm, over patches of
// several frames, and two MLPs: of each state, and of those that are merged (vllm
// models/minimax_m3/common/vision_tower.py).
func minimaxM3Tower(t *towers) {
	const name = "vision_tower.vision_model"
	c, top := t.sub("vision_config"), t.topReader()
	merging := t.sub("vision_config", "img_token_compression_config")
	width, heads, patch := c.size("hidden_size"), max(c.size("num_attention_heads"), 1), c.size("patch_size")
	t.conv(name+".embeddings.patch_embedding", width, c.size("num_channels")*merging.opt("temporal_patch_size", 2)*patch*patch, false)
	t.norm(name+".pre_layrnorm", width, true)
	names := plainNames
	names.in, names.down = "fc1", "fc2"
	t.vit(vit{name: name + ".encoder.layers", layers: c.size("num_hidden_layers"), width: width, heads: heads, mlp: c.size("intermediate_size"), names: names}.biased())
	for _, axis := range []string{"t", "h", "w"} {
		t.buffer(name+".inv_freq_"+axis, (width/heads/2*2/3/2*2+1)/2, dtype.Float32)
	}
	inner, merge := top.opt("projector_hidden_size", 0), merging.opt("spatial_merge_size", 2)
	if inner == 0 {
		inner = t.hidden
	}
	for _, mlp := range []struct {
		name   string
		from   int
		biased bool
	}{
		{"multi_modal_projector", width, c.flag("multimodal_projector_bias", true)},
		{"patch_merge_mlp", t.hidden * merge * merge, c.flag("patch_merge_bias", true)},
	} {
		at := "vision_tower." + mlp.name
		t.mlp([]string{at + ".linear_1"}, at+".linear_2", mlp.from, inner, t.hidden, false, mlp.biased)
	}
}
