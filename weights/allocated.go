package weights

import "headcount/model"

// Bounds of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp): a tensor of
// large bytes or more gets a segment of its own, a multiple of step; what is left of it is
// split off, and counts no more, if it is more than spare.
const (
	large = 10 << 20
	step  = 2 << 20
	spare = 1 << 20
)

// unsplit is what the allocator counts beyond a tensor of n bytes.
func unsplit(n int64) int64 {
	if left := roundUp(n, step) - n; n >= large && left <= spare {
		return left
	}
	return 0
}

// Allocated are the bytes that vLLM finds allocated on tensor-parallel rank 0 of each stage
// once a checkpoint is loaded, beyond those of its parameters and buffers: what is left over
// of segments, what latent attention keeps a second time to absorb it, and of experts in
// MXFP4 their biases' width in float32 and, where the engine keeps them, the scales that its
// kernel has a copy of. Of other quantisations it is zero: their formats decide.
func Allocated(m *model.Model, b Build) []int64 {
	out := make([]int64, len(b.Spans))
	q := quantisedOf(m)
	for i, span := range b.Spans {
		t := tally{build: b, stage: &Stage{}}
		for start := span.Start; start < span.End && q == nil; {
			end := start + 1
			for end < span.End && m.Layers[end] == m.Layers[start] {
				end++
			}
			out[i] += int64(end-start) * t.beyond(m.Layers[start], m.HiddenSize)
			start = end
		}
		for l := span.Start; b.Swizzled && l < span.End; l++ {
			out[i] += t.swizzled(m.Layers[l])
		}
		for j := range m.Outer {
			if p := &m.Outer[j]; onStage(p.Stage, i, len(b.Spans)) && !b.leavesOut(m, p) {
				out[i] += unsplit(t.bytes(p))
			}
		}
	}
	return out
}

// beyond is one layer's part of Allocated. Products that read the same input are one tensor.
func (t *tally) beyond(l *model.Layer, hidden int) (n int64) {
	var fused [2]struct {
		part  model.Part
		bytes int64
	}
	for i := range l.Params {
		p := &l.Params[i]
		bytes := t.bytes(p)
		reads := p.Linear && p.Cols.Size == hidden && p.Rows.Split != model.Whole
		at := 0
		if p.Experts > 0 {
			at = 1
		}
		switch {
		case !reads:
			n += unsplit(bytes)
		case fused[at].part == p.Part:
			fused[at].bytes += bytes
		default:
			n += unsplit(fused[at].bytes)
			fused[at].part, fused[at].bytes = p.Part, bytes
		}
	}
	n += unsplit(fused[0].bytes) + unsplit(fused[1].bytes)
	for i := range l.Caches {
		if c := &l.Caches[i]; c.Kind == model.Latent && c.Expanded.QueryHeads > 0 {
			width := c.Expanded.KeyDim - (c.Attn.KeyDim - c.Attn.LatentDim) + c.Expanded.ValueDim
			n += int64(c.Expanded.QueryHeads/max(int(t.build.Layout.TP), 1)) * int64(width) * int64(c.Attn.LatentDim) * t.build.DType.Bytes()
		}
	}
	return n
}

// swizzled is what Triton's kernel for MXFP4 adds to a layer's experts (vllm fused_moe/oracle/
// mxfp4.py): a scale of one byte for each 32 elements, which stays beside its copy if the
// engine lets it, and biases in float32.
func (t *tally) swizzled(l *model.Layer) (n int64) {
	const group, wider = 32, 2
	for i := range l.Params {
		p := &l.Params[i]
		switch {
		case p.Experts == 0:
		case p.Cols.Size == 0:
			n += wider * t.elements(p)
		case t.build.KeepsScales:
			n += t.elements(p) / group
		}
	}
	return n
}
