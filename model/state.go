package model

import (
	"headcount/dtype"
	"headcount/problem"
)

// cache is the state of one recurrent layer.
func (s State) cache() Cache { return Cache{Kind: Recurrent, State: s} }

// valid reports whether a state's sizes can be multiplied, and fails for field if not.
func (r *reader) valid(s State, field string) bool {
	n := r.times(field, max(s.Heads, 1), max(s.HeadDim, 1))
	n = r.times(field, n, max(s.StateSize, 1))
	r.times(field, max(s.Groups, 1), max(s.StateSize, 1))
	r.times(field, max(s.Inner, 1), max(s.Kernel, s.StateSize, 1))
	return r.err == nil && n > 0
}

// mamba1 are the parameters of a Mamba-1 mixer: rank is the width of the projection that
// time steps are expanded from (vllm layers/mamba/mamba_mixer.py).
type mamba1 struct {
	State
	rank               int
	field              string // config field of Inner
	projBias, convBias bool
	norms              bool // weights of norms over the time step, B and C
}

func (m mamba1) params(prefix string, hidden int) []Param {
	name := func(s string) string { return prefix + "." + s }
	inner := sharded(m.Inner, m.field)
	params := []Param{
		linear(name("in_proj"), Attention, sharded(2*m.Inner, m.field), whole(hidden)),
		linear(name("x_proj"), Attention, whole(m.rank+2*m.StateSize), inner),
		linear(name("dt_proj"), Attention, inner, whole(m.rank)),
		bias(name("dt_proj"), Attention, inner),
		linear(name("out_proj"), Attention, whole(hidden), inner),
		{Name: name("A_log"), Part: Attention, Rows: inner, Cols: whole(m.StateSize), DType: dtype.Float32},
		{Name: name("D"), Part: Attention, Rows: inner},
	}
	params = append(params, convolution(name("conv1d"), m.Kernel, m.convBias, inner)...)
	if m.projBias {
		params = append(params,
			bias(name("in_proj"), Attention, sharded(2*m.Inner, m.field)),
			bias(name("out_proj"), Attention, whole(hidden)))
	}
	if m.norms {
		params = append(params, norm(name("dt_layernorm"), m.rank),
			norm(name("b_layernorm"), m.StateSize), norm(name("c_layernorm"), m.StateSize))
	}
	return params
}

// convolution is a causal depthwise convolution of taps over channels.
func convolution(name string, taps int, biased bool, channels ...Axis) []Param {
	var params []Param
	for _, c := range channels {
		params = append(params, Param{Name: name + ".weight", Part: Attention, Rows: c, Cols: whole(taps)})
		if biased {
			params = append(params, bias(name, Attention, c))
		}
	}
	return params
}

// mamba2 are the parameters of a Mamba-2 mixer (vllm layers/mamba/mamba_mixer2.py).
type mamba2 struct {
	State
	fields             mamba2Fields
	projBias, convBias bool
	gatedNorm          bool
}

// mamba2Fields are the config fields that a refusal names.
type mamba2Fields struct{ inner, heads, groups string }

func (m mamba2) params(prefix string, hidden int) []Param {
	name := func(s string) string { return prefix + "." + s }
	inner, heads := sharded(m.Inner, m.fields.inner), sharded(m.Heads, m.fields.heads)
	groups := m.groups()
	params := []Param{
		linear(name("out_proj"), Attention, whole(hidden), inner),
		{Name: name("A_log"), Part: Attention, Rows: heads, DType: dtype.Float32},
		{Name: name("D"), Part: Attention, Rows: heads},
		{Name: name("dt_bias"), Part: Attention, Rows: heads},
	}
	for _, rows := range m.outputs() {
		params = append(params, linear(name("in_proj"), Attention, rows, whole(hidden)))
		if m.projBias {
			params = append(params, bias(name("in_proj"), Attention, rows))
		}
	}
	params = append(params, convolution(name("conv1d"), m.Kernel, m.convBias, inner, groups, groups)...)
	if m.projBias {
		params = append(params, bias(name("out_proj"), Attention, whole(hidden)))
	}
	if m.gatedNorm {
		params = append(params, Param{Name: name("norm.weight"), Part: Norm, Rows: inner})
	}
	return params
}

// outputs are the rows of in_proj: gate, x, B, C and time step.
func (m mamba2) outputs() []Axis {
	inner, groups := sharded(m.Inner, m.fields.inner), m.groups()
	return []Axis{inner, inner, groups, groups, sharded(m.Heads, m.fields.heads)}
}

// groups is the axis of B or C: a single group is on every rank, several are divided.
func (m mamba2) groups() Axis {
	if m.Groups == 1 {
		return whole(m.StateSize)
	}
	return Axis{Size: m.Groups * m.StateSize, Split: Sharded, Unit: m.StateSize, Field: m.fields.groups}
}

// deltaNet are the parameters of a gated delta net (vllm
// layers/mamba/gdn/qwen_gdn_linear_attn.py): keys and queries of Groups heads, values and
// gates of Heads heads.
type deltaNet struct {
	State
	projections [6]string // names of q, k, v, output gate, b, a
}

func (d deltaNet) params(prefix string, hidden int) []Param {
	name := func(s string) string { return prefix + "." + s }
	keys := sharded(d.Groups*d.StateSize, "linear_num_key_heads") // by elements: a rank may hold part of a head
	values := Axis{Size: d.Heads * d.HeadDim, Split: Sharded, Unit: d.HeadDim, Field: "linear_num_value_heads"}
	heads := sharded(d.Heads, "linear_num_value_heads")
	params := []Param{
		linear(name("out_proj"), Attention, whole(hidden), values),
		{Name: name("A_log"), Part: Attention, Rows: heads, DType: dtype.Float32},
		{Name: name("dt_bias"), Part: Attention, Rows: heads},
		norm(name("norm"), d.HeadDim),
	}
	for i, rows := range []Axis{keys, keys, values, values, heads, heads} {
		params = append(params, linear(name(d.projections[i]), Attention, rows, whole(hidden)))
	}
	return append(params, convolution(name("conv1d"), d.Kernel, false, keys, keys, values)...)
}

// shortConv are the parameters of a gated short convolution of width Inner, B and C
// beside x in one projection (vllm layers/mamba/short_conv.py).
type shortConv struct {
	State
	biased bool
}

func (s shortConv) params(prefix string, hidden int) []Param {
	inner := sharded(s.Inner, "hidden_size")
	params := []Param{
		linear(prefix+".in_proj", Attention, sharded(3*s.Inner, "hidden_size"), whole(hidden)),
		linear(prefix+".out_proj", Attention, whole(hidden), inner),
	}
	if s.biased {
		params = append(params,
			bias(prefix+".in_proj", Attention, sharded(3*s.Inner, "hidden_size")),
			bias(prefix+".out_proj", Attention, whole(hidden)))
	}
	return append(params, convolution(prefix+".conv", s.Kernel, s.biased, inner)...)
}

// kernel reads the taps of a convolution, of which there is at least one.
func (r *reader) kernel(key string) int {
	n := r.size(key)
	if n > 1<<16 {
		r.fail(problem.BadValue, key, "more than %d taps", 1<<16)
		return 1
	}
	return n
}
