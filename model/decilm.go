package model

import (
	"headcount/checkpoint"
	"headcount/problem"
)

// decilm is a Llama whose layers were searched for one by one: block_configs gives each
// its number of KV heads and the width of its MLP, or leaves either out (Nemotron 49B and
// 253B; vllm nemotron_nas.py). A Llama-like file with num_key_value_heads_per_layer is
// DeciLM-7B's.
var decilm = family{
	name:          "decilm",
	architectures: []string{"DeciLMForCausalLM"},
	types:         []string{"nemotron-nas", "deci"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false) || r.flag("bias", false)
		d := decoder{gated: true, qkvBias: r.flag("qkv_bias", bias), outBias: bias, mlpBias: r.flag("mlp_bias", false)}
		blocks, ok := r.List("block_configs")
		if !ok {
			return r.decoder(d)
		}
		return r.decoderOfBlocks(d, blocks)
	},
}

// A block is what block_configs says of one layer. The zero block has neither attention
// nor an MLP.
type block struct{ kv, intermediate int }

// decoderOfBlocks resolves a model of d's form whose layers differ as blocks say.
func (r *reader) decoderOfBlocks(d decoder, list []checkpoint.Value) *Model {
	d.heads.query = r.count("num_attention_heads")
	d.heads.key = r.headDim(d.heads.query)
	d.heads.value = d.heads.key
	if len(list) != r.layers() {
		r.fail(problem.BadValue, "block_configs", "%d entries for %d layers", len(list), r.layers())
	}
	blocks := make([]block, len(list))
	for i, v := range list {
		blocks[i] = r.block(v.Dict(), d.heads.query, i)
		if blocks[i].kv > 0 && d.heads.kv == 0 { // what a config view shows is the first layer's
			d.heads.kv = blocks[i].kv
			d.intermediate = max(blocks[i].intermediate, 1)
		}
	}
	if d.heads.kv == 0 {
		r.fail(problem.BadValue, "block_configs", "no layer has attention")
		return r.model()
	}
	m := r.decoder(d)
	if r.err != nil {
		return m
	}
	r.from("kv_heads", "num_attention_heads / n_heads_in_group of each of block_configs")
	m.Layers = perKind(blocks, func(b block) *Layer { return d.layerOf(b, m.HiddenSize) })
	return m
}

// layerOf is one layer as its block says.
func (d decoder) layerOf(b block, hidden int) *Layer {
	l := &Layer{}
	if b.kv > 0 {
		h := d.heads
		h.kv = b.kv
		l.Caches = []Cache{h.cache(0)}
		l.Params = append(attentionParams("self_attn", h, hidden, d.qkvBias, d.outBias), norm("input_layernorm", hidden))
	}
	if b.intermediate > 0 {
		l.Params = append(l.Params, mlpParams("mlp", MLP, hidden, b.intermediate, d.gated, d.mlpBias)...)
		l.Params = append(l.Params, norm("post_attention_layernorm", hidden))
	}
	return l
}

// block reads one entry of block_configs.
func (r *reader) block(o *checkpoint.Object, query, layer int) (b block) {
	attention, ffn := o.Dict("attention"), o.Dict("ffn")
	if group, ok := intOf(attention, "n_heads_in_group"); ok && !truthOf(attention, "no_op") {
		if group < 1 || query%int(min(group, maxSize)) != 0 {
			r.fail(problem.NotDivisible, "block_configs", "n_heads_in_group = %d of layer %d does not divide %d heads", group, layer, query)
			return b
		}
		b.kv = query / int(group)
	}
	if truthOf(ffn, "no_op") {
		return b
	}
	if mult, ok := ffnMult(ffn); ok {
		b.intermediate = r.multiple(mult, layer)
	} else if n, ok := intOf(ffn, "intermediate_size"); ok && n >= 0 && n <= maxSize {
		b.intermediate = int(n)
	}
	return b
}

func ffnMult(ffn *checkpoint.Object) (float64, bool) {
	v, _ := ffn.Get("ffn_mult")
	return v.Float()
}

// multiple is the width of an MLP given as a multiple of the hidden size, of which a gated
// one takes two thirds, rounded up to 256 (vllm nemotron_nas.py
// _ffn_mult_to_intermediate_size).
func (r *reader) multiple(mult float64, layer int) int {
	width := 2 * mult * float64(r.size("hidden_size")) / 3
	if !(width >= 0 && width < maxSize) {
		r.fail(problem.BadValue, "block_configs", "ffn_mult = %v of layer %d is out of range", mult, layer)
		return 0
	}
	return (int(width) + 255) / 256 * 256
}

func intOf(o *checkpoint.Object, key string) (int64, bool) {
	v, _ := o.Get(key)
	return v.Int()
}

func truthOf(o *checkpoint.Object, key string) bool {
	v, _ := o.Get(key)
	b, _ := v.Bool()
	return b
}
