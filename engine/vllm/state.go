package vllm

import (
	"math"

	"headcount/dtype"
	"headcount/model"
	"headcount/problem"
)

// states are the tensors of a recurrent layer's state on a rank, and their bytes
// (MambaStateShapeCalculator, MambaStateDtypeCalculator).
func (s *setup) states(m *model.State) (out [maxStates]state, bytes int64, err *problem.Error) {
	tp := int64(s.layout.TP)
	conv := s.stateType(s.convDType, s.dtype)
	ssm := s.stateType(s.ssmDType, conv)
	if m.Mixer == model.KDA {
		ssm = s.stateType(s.ssmDType, dtype.Float32)
	}
	taps := int64(m.Kernel) - 1
	if m.Mixer != model.Mamba1 {
		taps += s.drafts
	}
	var channels, heads int64
	field := "num_heads"
	switch m.Mixer {
	case model.Mamba1:
		channels, field = int64(m.Inner), "intermediate_size"
	case model.Mamba2:
		groups := int64(m.Groups)
		if groups%tp != 0 {
			if groups != 1 {
				return out, 0, problem.New(problem.NotDivisible, s.v.field("n_groups"), groups,
					"If tensor parallel world size does not divide num_groups, then num_groups must equal 1.").
					WithHint("a tensor parallel size that divides %d", groups)
			}
			groups = tp
		}
		channels, heads, field = int64(m.Inner)+2*groups*int64(m.StateSize), int64(m.Heads), "mamba_num_heads"
	case model.GatedDeltaNet, model.KDA:
		channels, heads = 2*int64(m.Groups)*int64(m.StateSize)+int64(m.Heads)*int64(m.HeadDim), int64(m.Heads)
		field = "linear_num_value_heads"
	case model.ShortConv:
		channels, field = int64(m.Inner), "hidden_size"
	case model.LinearAttention:
		heads, field = int64(m.Heads), "num_attention_heads"
	}
	if channels%tp != 0 || heads%tp != 0 {
		n := channels
		if heads%tp != 0 {
			n = heads
		}
		return out, 0, s.indivisible(field, n)
	}
	channels, heads = channels/tp, heads/tp
	switch m.Mixer {
	case model.Mamba1:
		out[0], out[1] = tensor(conv, taps, channels), tensor(ssm, channels, int64(m.StateSize))
	case model.Mamba2:
		out[0], out[1] = tensor(conv, taps, channels), tensor(ssm, heads, int64(m.HeadDim), int64(m.StateSize))
	case model.GatedDeltaNet:
		out[0], out[1] = tensor(conv, taps, channels), tensor(ssm, heads, int64(m.HeadDim), int64(m.StateSize))
	case model.KDA:
		out[0], out[1] = tensor(conv, taps, channels), tensor(ssm, heads, int64(m.HeadDim), int64(m.HeadDim))
	case model.ShortConv:
		out[0] = tensor(conv, taps, channels)
	case model.LinearAttention:
		out[0] = tensor(conv, heads, int64(m.HeadDim), int64(m.HeadDim))
	default:
		return out, 0, problem.New(problem.NotKnown, "", nil, "how the engine shapes the state of a %s layer is not known", m.Mixer)
	}
	for i := range out {
		n, ok := out[i].bytes()
		if bytes += n; !ok || bytes > maxPage {
			return out, 0, problem.New(problem.BadValue, s.v.field(field), nil, "a state of more than %d bytes", int64(maxPage))
		}
	}
	return out, bytes, nil
}

// stateType is a dtype flag's, or def for auto.
func (s *setup) stateType(flag string, def dtype.Type) dtype.Type {
	if t, ok := dtype.Parse(flag); ok {
		return t
	}
	return def
}

// tensor is one tensor of a state; a size beyond int32 is cut to its largest, which no
// page bound lets pass.
func tensor(t dtype.Type, dims ...int64) state {
	s := state{Rank: uint8(len(dims)), DType: t}
	for i, d := range dims {
		s.Dims[i] = int32(min(max(d, 0), math.MaxInt32))
	}
	return s
}

// checkpoints is how many blocks a request holds beside its states so that a prefill can
// leave a state behind at a block's end, and the tokens that it lies a multiple of. Each
// mixer has its own kernels for that.
func (s *setup) checkpoints(m *model.State) (blocks, align int64) {
	r := s.rules
	switch m.Mixer {
	case model.Mamba2:
		if r.mambaLeaves {
			return 1, 1
		}
	case model.GatedDeltaNet:
		if s.checkpointGrid() > 1 {
			return 1, s.stateBlock
		}
	case model.KDA:
		if r.kdaLeaves && (s.v.kimiK3() || s.v.model.Family == "glm5_next") && s.flashKDA(m) {
			return 1, 16
		}
	}
	return 0, 0
}

// checkpointGrid is the tokens that blocks must be a multiple of so that prefills can leave
// checkpoints: 64 when every recurrent layer is a gated delta net that FlashInfer prefills,
// else 1 (qwen_gdn_linear_attn.py, _resolve_gdn_prefill_backend).
func (s *setup) checkpointGrid() int64 {
	if !s.align || !s.rules.deltaLeaves || len(s.v.states) == 0 {
		return 1
	}
	for i := range s.v.states {
		m := &s.v.states[i]
		onHopper := s.gpu.major == 9 && s.gpu.minor == 0
		onBlackwell := (s.gpu.major == 10 || s.gpu.major == 12) && m.StateSize == 128
		if m.Mixer != model.GatedDeltaNet || s.gpu.cpu || !onHopper && !onBlackwell {
			return 1
		}
		if s.v.model.Family == "olmo_hybrid" { // a class of its own, which Triton prefills
			return 1
		}
	}
	return 64
}

// flashKDA tells whether FlashKDA prefills a KDA layer (models/kimi_k3/nvidia/kda.py,
// is_flashkda_supported).
func (s *setup) flashKDA(m *model.State) bool {
	bound, _ := s.v.model.Config.Object("linear_attn_config").Get("gate_lower_bound")
	_, bounded := bound.Float()
	if s.v.model.Family == "glm5_next" {
		_, bounded = s.v.model.Config.Float("linear_lower_bound")
	}
	return !s.gpu.cpu && (s.gpu.major == 9 || s.gpu.major == 10 || s.gpu.major == 12) && m.HeadDim == 128 &&
		s.dtype == dtype.BFloat16 && bounded
}
