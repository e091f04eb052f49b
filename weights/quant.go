package weights

import (
	"slices"

	"headcount/dtype"
	"headcount/model"
	"headcount/problem"
)

// A scheme is how a quantisation method keeps the weight of a linear module: the tensors in
// its place, as vLLM 0.33.0 creates them before a kernel repacks them
// (model_executor/layers/quantization). Routed experts have lists of their own, one of each
// tensor an expert.
type scheme struct {
	linear, experts []tensor

	// fit is the list of experts where it depends on what a rank holds of each, of what is
	// divided and of what is whole; nil, the engine refuses. A nil fit: it does not depend.
	fit func(divided, whole int64, tp int) []tensor

	kernel kernel // for whose sake what a rank holds of an expert is padded
}

// A kernel is what runs experts, where that pads them.
type kernel uint8

const (
	anyKernel kernel = iota // takes what there is
	mxfp4Kernel
	gptOSSKernel
)

// A tensor is one of the tensors that stand for a weight of n outputs and k inputs on a
// rank, [n/outputs, k/inputs]. 0 in the place of either number: one for all of them.
type tensor struct {
	outputs, inputs int64
	dtype           dtype.Type // Unknown: the model's
	partial         bool       // what is left of a division counts as one, too
	hold            hold       // where an engine refuses a rank a part of one of its pieces
	joined          bool       // one for the module, not one for each of the weights that it joins
	everywhere      bool       // of every expert of the model on each rank, with a kernel that wants that
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
func blocks(n, k int64, scale dtype.Type, hold hold) *scheme {
	joined := tensor{outputs: n, inputs: k, dtype: scale, partial: true, joined: true, hold: hold}
	return &scheme{linear: []tensor{float8, joined}, experts: expertBlocks(n, k)}
}

// expertBlocks are blocks of experts, whose scales are float32.
func expertBlocks(n, k int64) []tensor {
	return []tensor{float8, {outputs: n, inputs: k, dtype: dtype.Float32, partial: true}}
}

// leastBlock is the smallest side of a block that the engine makes of larger ones.
const leastBlock = 32

// wholeBlocks are blocks of which a rank holds whole ones of experts
// (fp8_utils.py validate_fp8_block_shape_moe).
func wholeBlocks(s *scheme, n, k int64) *scheme {
	s.fit = func(divided, _ int64, tp int) []tensor {
		if divided%n == 0 && (tp == 1 || divided%k == 0) {
			return s.experts
		}
		return nil
	}
	return s
}

// refined are blocks that shrink, for experts of which a rank does not hold whole ones, to
// what divides its part (fused_moe/oracle/fp8.py refine_fp8_moe_block_shape).
func refined(s *scheme, n, k int64) *scheme {
	fits := wholeBlocks(s, n, k).fit
	s.fit = func(divided, whole int64, tp int) []tensor {
		if list := fits(divided, whole, tp); list != nil {
			return list
		}
		if side := gcd(gcd(n, k), gcd(divided, whole)); side >= leastBlock {
			return expertBlocks(side, side)
		}
		return nil
	}
	return s
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
// scale for the whole; linear modules have more for what comes in, experts always a scale.
func nvfp4(group int64, inputs ...tensor) *scheme {
	packed := []tensor{{outputs: 1, inputs: 2, dtype: dtype.UInt8}, {outputs: 1, inputs: group, dtype: dtype.Float8E4M3}, scalePerTensor}
	return &scheme{linear: append(packed[:3:3], inputs...), experts: append(packed[:3:3], tensor{dtype: dtype.Float32, everywhere: true})}
}

// mxfp4 is two 4-bit numbers a byte and a scale of one byte for each 32 inputs.
func mxfp4() *scheme {
	both := []tensor{{outputs: 1, inputs: 2, dtype: dtype.UInt8}, {outputs: 1, inputs: 32, dtype: dtype.UInt8}}
	return &scheme{linear: both, experts: both}
}

// mxfp8 is FP8 with a scale of one byte for each 32 inputs.
func mxfp8() *scheme {
	both := []tensor{float8, {outputs: 1, inputs: 32, dtype: dtype.UInt8, hold: wholeInputs}}
	return &scheme{linear: both, experts: both}
}

// packedInts are whole numbers of so many bits in words of 32 along the inputs, a scale in
// the model's dtype for each group of inputs (0: for all), and the weight's shape, which
// experts keep in the model's dtype (compressed_tensors_wNa16.py, compressed_tensors_moe_wna16.py).
func packedInts(bits, group int64, symmetric bool) *scheme {
	words := 32 / bits
	both := []tensor{{outputs: 1, inputs: words, dtype: dtype.Int32, partial: true}, {outputs: 1, inputs: group, hold: wholeInputs}}
	if !symmetric {
		both = append(both, tensor{outputs: words, inputs: group, dtype: dtype.Int32, partial: true, joined: true})
	}
	n := len(both)
	s := &scheme{linear: append(both[:n:n], tensor{dtype: dtype.Int64, joined: true, times: 2})}
	if group > 0 { // the engine takes no others of experts
		s.experts = append(both[:n:n], tensor{joined: true, times: 2})
	}
	return s
}

// ints8 are 8-bit whole numbers with a float32 scale for each output, or for each weight,
// which experts do not have.
func ints8(perRow bool) *scheme {
	if !perRow {
		return &scheme{linear: []tensor{int8, scalePerTensor}}
	}
	both := []tensor{int8, scalePerRow}
	return &scheme{linear: both, experts: both}
}

// awq are words of 32 bits along the outputs, with zero points and scales for each group
// of inputs (0: all). Experts that Marlin cannot take are kept in bytes along the inputs,
// in groups halved until a rank holds whole ones (auto_awq.py, moe_wna16.py MoeWNA16Method).
func awq(bits, group int64, zeroPoints bool) *scheme {
	words := 32 / bits
	both := []tensor{
		{outputs: 1, inputs: group},
		{outputs: words, inputs: 1, dtype: dtype.Int32, joined: true},
		{outputs: words, inputs: group, dtype: dtype.Int32, joined: true},
	}
	linear := slices.Clone(both)
	linear[0].hold, linear[1].hold = wholeInputs, wholeOutputs
	fit := func(divided, whole int64, _ int) []tensor {
		if whole%128 == 0 && (group == 0 || divided%group == 0) && slices.Contains(marlinGroups, group) {
			return both
		}
		half := group
		for half > 0 && (divided%half != 0 || whole%half != 0) {
			half /= 2
		}
		if half < leastGroup {
			return nil
		}
		values := 8 / bits // in a byte
		inBytes := []tensor{{outputs: 1, inputs: values, dtype: dtype.UInt8}, {outputs: 1, inputs: half}}
		if zeroPoints {
			inBytes = append(inBytes, tensor{outputs: values, inputs: half, dtype: dtype.UInt8, joined: true})
		}
		return inBytes
	}
	return &scheme{linear: linear, experts: both, fit: fit}
}

// gptq are words of 32 bits along the inputs, with zero points and scales for each group of
// inputs (0: all), of which a rank must hold whole ones (auto_gptq.py).
func gptq(bits, group int64) *scheme {
	words := 32 / bits
	return &scheme{linear: []tensor{
		{outputs: 1, inputs: words, dtype: dtype.Int32},
		{outputs: words, inputs: group, dtype: dtype.Int32, joined: true},
		{outputs: 1, inputs: group, hold: wholeInputs},
	}}
}

// nf4 is two 4-bit numbers a byte and a float32 for each 64 of them (bitsandbytes; scales that
// are packed themselves are unpacked by the loader).
func nf4() *scheme {
	return &scheme{linear: []tensor{{outputs: 1, inputs: 2, dtype: dtype.UInt8}, {outputs: 1, inputs: 64, dtype: dtype.Float32, partial: true}}}
}

// marlinGroups are the groups that the Marlin kernel takes; leastGroup is the smallest that
// the engine makes of larger ones.
var marlinGroups = []int64{0, 32, 64, 128}

const leastGroup = 32

// A module is a linear module as an engine builds it: the parameters that it joins, by
// their places in the layer, and how it keeps them.
type module struct {
	params []int
	scheme *scheme
	single bool // the engine takes the parameters for one weight
}

// module counts a module of a layer that occurs so many times.
func (t *tally) module(params []model.Param, m *module, times int64) {
	first := &params[m.params[0]]
	copies := t.copies(first)
	_, width := t.shape(first)
	alone := t.alone(params, m)
	for _, tensor := range t.tensors(m.scheme, first) {
		if tensor.hold.counts() && first.Name != scoreWeight { // of few labels less than a piece is left, and nothing said
			t.checkPieces(params, m, &tensor)
		}
		n, joined := int64(0), int64(0)
		for _, i := range m.params {
			height, _ := t.shape(&params[i])
			joined = t.plus(joined, height)
			n = t.plus(n, tensor.steps(height, tensor.outputs))
		}
		if tensor.joined || alone {
			n = tensor.steps(joined, tensor.outputs)
		}
		n = t.times(t.times(n, tensor.steps(width, tensor.inputs)), max(tensor.times, 1))
		held := copies
		if tensor.everywhere && t.build.AllExpertScales {
			held = int64(first.Experts)
		}
		t.count(first.Part, t.times(t.times(n, held), times), tensor.dtype)
	}
}

// tensors are those that a scheme keeps of a parameter.
func (t *tally) tensors(s *scheme, p *model.Param) []tensor {
	switch {
	case p.Experts == 0:
		return s.linear
	case s.fit == nil:
		return s.experts
	}
	divided, whole := t.shape(p)
	axis := &p.Rows
	if p.Rows.Split != model.Sharded {
		divided, whole, axis = whole, divided, &p.Cols
	}
	tp := t.build.Layout.TP
	if t.build.Layout.EP {
		tp = 1
	}
	list := s.fit(divided, whole, tp)
	if list == nil && t.err == nil {
		t.err = problem.New(problem.NotDivisible, axis.Field, axis.Size,
			"the experts' %d of a rank cut blocks or groups of the quantised weight", divided)
	}
	return list
}

// steps is how many steps of a size are in n; 0: one for all.
func (t *tensor) steps(n, size int64) int64 {
	switch {
	case size == 0:
		return 1
	case t.partial:
		return (n + size - 1) / size
	}
	return n / size
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
			size := dtype.Float32
			if t.build.ByPlan { // which makes all parameters anew, in the model's dtype
				size = dtype.Unknown
			}
			t.count(model.Attention, n, size)
			t.count(model.Attention, n, dtype.Unknown)
		}
	}
}
