package weights

import (
	"math"
	"slices"

	"headcount/attn"
	"headcount/dtype"
	"headcount/model"
)

// Bytes of the buffers that vLLM makes for itself.
const (
	scales    = 4 * 4 // of an attention object: q, k, v and probability, float32 (attention.py)
	twoScales = 2 * 4 // of k and v alone (models/inkling)
	inverse   = 2 * 4 // of a frequency that Transformers' modules keep twice, float32
	expertMap = 4     // of a routed expert, under expert parallelism
)

// Buffers are the bytes that vLLM keeps on tensor-parallel rank 0 of each pipeline stage
// beside the parameters: scales of each attention, tables of rotary positions, and what a
// family adds (named_buffers of the module that 0.33.0 builds). ok is false where towers
// that are not known have buffers of their own.
func Buffers(m *model.Model, b Build) (bytes []int64, ok bool) {
	if m.Towers && m.WeightsUnknown != "" || m.Guessed {
		return nil, false
	}
	b.Layout = b.Layout.Normal()
	bytes = make([]int64, len(b.Spans))
	for i, span := range b.Spans {
		layers := m.Layers[span.Start:span.End]
		t := tally{build: b, stage: &Stage{}}
		eachKind(len(layers), func(k int) *model.Layer { return layers[k] }, func(l *model.Layer, times int64) {
			bytes[i] = t.plus(bytes[i], t.times(t.layerBuffers(l), times))
		})
		for j := range m.Buffers {
			if p := &m.Buffers[j]; onStage(p.Stage, i, len(b.Spans)) && !b.leavesOut(m, p) {
				bytes[i] += t.bytes(p) * int64(max(p.Times, 1))
			}
		}
		served := layers
		if b.ByPlan { // Transformers' modules keep one table for the model
			served = m.Layers
		}
		for k, rope := range m.Ropes {
			again := func(other model.Rope) bool { return other.Same(rope) && other.Serves(served) }
			if rope.Serves(served) && (b.ByPlan || !slices.ContainsFunc(m.Ropes[:k], again)) {
				bytes[i] += b.table(rope)
			}
		}
		if t.err != nil {
			return nil, false
		}
	}
	return bytes, true
}

// layerBuffers are the buffers of one layer.
func (t *tally) layerBuffers(l *model.Layer) (n int64) {
	for i := range l.Caches {
		switch c := &l.Caches[i]; {
		case i > 0 && l.Caches[i-1].Convolved():
			n += twoScales
		case hasScales(c):
			n += scales
		case c.Kind == model.Recurrent:
			n += t.convView(c.State) + t.kdaCopies(c.State)
		}
	}
	for i := range l.Buffers {
		p := &l.Buffers[i]
		size := t.bytes(p)
		if p.PerToken {
			size = t.times(size, t.build.Step)
		}
		n = t.plus(n, size)
	}
	if t.build.Layout.EP && t.build.Layout.TP > 1 {
		for i := range l.Params {
			if p := &l.Params[i]; p.Experts > 0 {
				return n + expertMap*int64(p.Experts)
			}
		}
	}
	return n
}

// hasScales reports whether the object behind a cache has scales: an attention, also one
// that reads an earlier layer's. A vector that is all latent, or waits to be compressed to
// one, has none (DeepSeek-V4).
func hasScales(c *model.Cache) bool {
	switch c.Kind {
	case model.Sliding:
		return !c.Convolved()
	case model.Full, model.Chunked, model.Cross, model.EncoderOnly, model.Shared:
		return true
	case model.Latent, model.SlidingLatent:
		return c.Attn.LatentDim < c.Attn.KeyDim && c.Expanded != (attn.Geometry{}) || c.Expanded.KVHeads > 1
	}
	return false
}

// bytes is what a rank holds of one tensor.
func (t *tally) bytes(p *model.Param) int64 {
	before := t.stage.Bytes
	t.add(p, 1)
	return t.stage.Bytes - before
}

// convView is the convolution of a Mamba-2 mixer, which vLLM names a second time
// (mamba_mixer2.py conv_weights).
func (t *tally) convView(s model.State) int64 {
	if s.Mixer != model.Mamba2 {
		return 0
	}
	tp := t.build.Layout.TP
	groups := s.Groups
	if groups%tp != 0 {
		groups = tp
	}
	return int64(s.Inner+2*groups*s.StateSize) / int64(tp) * int64(s.Kernel) * t.build.DType.Bytes()
}

// kdaCopies are the convolution and the norm of Kimi delta attention as a kernel wants them,
// in float32 (vllm models/kimi_k3/nvidia/kda.py).
func (t *tally) kdaCopies(s model.State) int64 {
	heads := s.Heads / t.build.Layout.TP
	if s.Mixer != model.KDA || !t.build.FusedKDA || t.build.DType != dtype.BFloat16 || s.HeadDim != 128 || s.Kernel != 4 || !slices.Contains(fusedHeads, heads) {
		return 0
	}
	const three = 3 // of queries, keys and values
	return 4 * int64(three*s.Kernel*heads*s.HeadDim+s.HeadDim)
}

// fusedHeads are the heads of a rank that the kernel takes.
var fusedHeads = []int{12, 24, 48, 96}

// table is a rotary table: a row of cosines and sines for each position (vllm
// rotary_embedding/), or the frequencies that Transformers' modules keep instead.
func (b *Build) table(rope model.Rope) int64 {
	if b.ByPlan {
		return inverse * int64((rope.Dim+1)/2)
	}
	size := b.DType.Bytes()
	if rope.DType != 0 {
		size = rope.DType.Bytes()
	}
	if rope.Served && b.Length > 0 {
		rope.Length, rope.Type = b.Length, "default"
	}
	return Positions(rope) * int64((rope.Dim+1)/2*2) * size
}

// Positions are the rows of a rotary table.
func Positions(rope model.Rope) int64 {
	n := int64(rope.Length)
	switch rope.Type {
	case "linear":
		n = int64(float64(rope.Length) * rope.Factor)
	case "yarn", "deepseek_yarn", "deepseek_llama_scaling":
		n = int64(math.Ceil(float64(rope.Trained) * rope.Factor))
	case "longrope", "su":
		n = int64(rope.Trained) + int64(rope.Length)
	}
	if rope.Sections {
		n *= 4
	}
	return n
}
