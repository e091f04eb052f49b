package weights

import (
	"headcount/dtype"
	"headcount/model"
)

// A scheme is how a quantisation method keeps the weight of a linear module: the tensors in
// its place, as vLLM 0.33.0 creates them before a kernel repacks them
// (model_executor/layers/quantization). Routed experts have lists of their own, one of each
// tensor an expert. The zero scheme keeps the weight as it is.
type scheme struct {
	linear, experts []tensor

	// refined: blocks of experts shrink to what divides a rank's slice of them.
	refined bool
	kernel  kernel // for whose sake a rank's slice of an expert is padded
}

// A kernel is what runs routed experts, where that decides how far they are padded.
type kernel uint8

const (
	anyKernel kernel = iota
	mxfp4Kernel
)

// A tensor is one of the tensors that stand for a weight of n outputs and k inputs on a
// rank, [⌈n/outputs⌉, ⌈k/inputs⌉]. 0 in the place of either number: one for all of them.
type tensor struct {
	outputs, inputs int64
	dtype           dtype.Type // Unknown: the model's
	joined          bool       // one for the module, not one for each of the weights that it joins
	times           int64      // such tensors; 0: one
}

var (
	float8 = tensor{outputs: 1, inputs: 1, dtype: dtype.Float8E4M3}
	int8   = tensor{outputs: 1, inputs: 1, dtype: dtype.Int8}

	scalePerTensor = tensor{dtype: dtype.Float32}
	scalePerModule = tensor{dtype: dtype.Float32, joined: true}
	scalePerRow    = tensor{outputs: 1, dtype: dtype.Float32}
)

// blocks is FP8 with a scale for each block of n outputs and k inputs
// (fp8.py Fp8LinearMethod, Fp8MoEMethod).
func blocks(n, k int64, scale dtype.Type) *scheme {
	joined := tensor{outputs: n, inputs: k, dtype: scale, joined: true}
	each := tensor{outputs: n, inputs: k, dtype: dtype.Float32}
	return &scheme{linear: []tensor{float8, joined}, experts: []tensor{float8, each}}
}

// perTensor is FP8 with a scale for each weight, and one for its inputs where those are
// not scaled as they come.
func perTensor(static bool) *scheme {
	s := &scheme{linear: []tensor{float8, scalePerTensor}, experts: []tensor{float8, scalePerTensor}}
	return s.staticInputs(static)
}

// perRow is FP8 with a scale for each output.
func perRow(static bool) *scheme {
	s := &scheme{linear: []tensor{float8, scalePerRow}, experts: []tensor{float8, scalePerRow}}
	return s.staticInputs(static)
}

// staticInputs adds the scales of inputs. Gate and up of an expert share one.
func (s *scheme) staticInputs(static bool) *scheme {
	if static {
		s.linear = append(s.linear, scalePerTensor)
		s.experts = append(s.experts, scalePerModule)
	}
	return s
}

// nvfp4 is two 4-bit numbers a byte, an FP8 scale for each group of inputs and a float32
// scale for the whole. Linear modules that do not quantise their inputs have no scale for
// them; experts have one all the same.
func nvfp4(group int64, weightOnly bool) *scheme {
	packed := []tensor{{outputs: 1, inputs: 2, dtype: dtype.UInt8}, {outputs: 1, inputs: group, dtype: dtype.Float8E4M3}, scalePerTensor}
	s := &scheme{linear: packed, experts: append(packed[:3:3], scalePerTensor)}
	if !weightOnly {
		s.linear = s.experts
	}
	return s
}

// mxfp4 is two 4-bit numbers a byte and a scale of one byte for each 32 inputs.
func mxfp4() *scheme {
	both := []tensor{{outputs: 1, inputs: 2, dtype: dtype.UInt8}, {outputs: 1, inputs: 32, dtype: dtype.UInt8}}
	return &scheme{linear: both, experts: both, kernel: mxfp4Kernel}
}

// mxfp8 is FP8 with a scale of one byte for each 32 inputs.
func mxfp8() *scheme {
	both := []tensor{float8, {outputs: 1, inputs: 32, dtype: dtype.UInt8}}
	return &scheme{linear: both, experts: both}
}

// packedInts are whole numbers of so many bits in words of 32 along the inputs, a scale in
// the model's dtype for each group of inputs (0: for all), and the weight's shape, which
// experts keep in the model's dtype (compressed_tensors_wNa16.py, compressed_tensors_moe_wna16.py).
func packedInts(bits, group int64, symmetric bool) *scheme {
	words := 32 / bits
	both := []tensor{{outputs: 1, inputs: words, dtype: dtype.Int32}, {outputs: 1, inputs: group}}
	if !symmetric {
		both = append(both, tensor{outputs: words, inputs: group, dtype: dtype.Int32, joined: true})
	}
	n := len(both)
	return &scheme{
		linear:  append(both[:n:n], tensor{dtype: dtype.Int64, joined: true, times: 2}),
		experts: append(both[:n:n], tensor{joined: true, times: 2}),
	}
}

// ints8 are 8-bit whole numbers with a float32 scale for each output or each weight.
func ints8(scale tensor) *scheme {
	both := []tensor{int8, scale}
	return &scheme{linear: both, experts: both}
}

// awq are words of 32 bits along the outputs, with zero points and scales for each group
// of inputs (auto_awq.py).
func awq(bits, group int64) *scheme {
	words := 32 / bits
	both := []tensor{
		{outputs: words, inputs: 1, dtype: dtype.Int32, joined: true},
		{outputs: words, inputs: group, dtype: dtype.Int32, joined: true},
		{outputs: 1, inputs: group},
	}
	return &scheme{linear: both, experts: both}
}

// gptq are words of 32 bits along the inputs, with zero points and scales for each group
// of inputs (auto_gptq.py).
func gptq(bits, group int64) *scheme {
	words := 32 / bits
	return &scheme{linear: []tensor{
		{outputs: 1, inputs: words, dtype: dtype.Int32},
		{outputs: words, inputs: group, dtype: dtype.Int32, joined: true},
		{outputs: 1, inputs: group},
	}}
}

// A module is a linear module as an engine builds it: the parameters that it joins, by
// their places in the layer, and how it keeps them.
type module struct {
	params []int
	scheme *scheme
}

// module counts a module of a layer that occurs so many times.
func (t *tally) module(params []model.Param, m *module, times int64) {
	first := &params[m.params[0]]
	list, copies := m.scheme.linear, t.copies(first)
	if first.Experts > 0 {
		list = m.scheme.experts
	}
	_, width := t.shape(first)
	for _, tensor := range list {
		if m.scheme.refined && first.Experts > 0 {
			tensor = t.refine(tensor, first)
		}
		n, joined := int64(0), int64(0)
		for _, i := range m.params {
			height, _ := t.shape(&params[i])
			joined = t.plus(joined, height)
			n = t.plus(n, steps(height, tensor.outputs))
		}
		if tensor.joined {
			n = steps(joined, tensor.outputs)
		}
		n = t.times(t.times(n, steps(width, tensor.inputs)), max(tensor.times, 1))
		t.count(first.Part, t.times(t.times(n, copies), times), tensor.dtype)
	}
}

// steps is how many steps of a size cover n; 0: one for all.
func steps(n, size int64) int64 {
	if size == 0 {
		return 1
	}
	return (n + size - 1) / size
}

// refine shrinks the blocks of experts of which a rank holds no whole number to blocks that
// divide its slice (fused_moe/oracle/fp8.py refine_fp8_moe_block_shape). Those of less than
// 32 the engine refuses.
func (t *tally) refine(block tensor, p *model.Param) tensor {
	if block.outputs <= 1 {
		return block
	}
	slice, hidden := t.shape(p)
	if p.Rows.Split != model.Sharded {
		slice, hidden = hidden, slice
	}
	if slice%block.outputs == 0 && (t.build.Layout.TP == 1 || slice%block.inputs == 0) {
		return block
	}
	n := gcd(gcd(block.outputs, block.inputs), gcd(slice, hidden))
	if n >= 32 {
		block.outputs, block.inputs = n, n
	}
	return block
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// scales counts the parameters for scales of the caches of a layer that occurs so many times.
func (t *tally) scales(caches []model.Cache, kind cacheScales, times int64) {
	for _, c := range caches {
		latent := c.Kind == model.Latent || c.Kind == model.SlidingLatent
		if kind == noScales || !hasScales(&c) || latent && kind != fourScalesMLA {
			continue
		}
		switch kind {
		case fourScales, fourScalesMLA:
			t.count(model.Attention, 4*times, dtype.Unknown)
		case sixScales, sixScalesAHead:
			n := 3 * times
			if kind == sixScalesAHead {
				n *= max(1, int64(c.Attn.KVHeads/t.build.Layout.TP))
			}
			t.count(model.Attention, n, dtype.Float32)
			t.count(model.Attention, n, dtype.Unknown)
		}
	}
}
