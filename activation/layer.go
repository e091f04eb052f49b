package activation

import (
	"math"
	"slices"
	"strings"

	"headcount/model"
	"headcount/weights"
)

// A counter goes through layers and keeps the widest moment. Widths are elements a token on
// one rank; h is the hidden size.
type counter struct {
	pass  Pass
	habit habit
	model *model.Model
	ranks int

	hidden, elem float64

	shares bool    // a layer so far has asked for the workspace
	early  float64 // widest before there was one, bytes
	widest float64 // since then, beside it
	at     Moment  // of the widest
	kept   float64 // the workspace, bytes
}

// at notes a moment at which width elements a token live, and fixed bytes beside them.
func (c *counter) note(at Moment, width, fixed float64) {
	bytes := width*float64(c.pass.Tokens)*c.elem + fixed
	if !c.shares {
		c.early = max(c.early, bytes)
	} else {
		c.widest = max(c.widest, bytes)
	}
	if bytes >= max(c.early, c.widest) {
		c.at = at
	}
}

// asks reports whether a layer asks for the workspace.
func (c *counter) asks(l *model.Layer) bool {
	exports := len(l.Caches) > 0 && l.Caches[0].State.Mixer == model.GatedDeltaNet && c.pass.Grid > 0
	return exports || slices.ContainsFunc(l.Params, func(p model.Param) bool { return p.Experts > 0 })
}

// A block is one layer's widths on a rank.
type block struct {
	in, out  float64 // of the products that read the residual stream, and that write to it: attention or mixer
	query    float64 // expanded from a compressed query
	latents  float64 // normed latents beside what they were cut from
	normed   bool    // queries and keys are normed into copies
	norms    int     // of the residual stream
	mixed    bool    // the heads' q, k, v and z come in turns from one product
	kept     bool    // the mixer wrote into a tensor that lives as long as the layer
	gate, up float64 // of the MLP: what reads the stream, what writes to it
	shared   struct{ gate, up float64 }
	expert   struct{ gate, up float64 }
	router   float64
}

func (c *counter) layer(l *model.Layer) {
	b := c.block(l)
	if len(l.Caches) > 0 {
		mixer := l.Caches[0].State.Mixer
		b.kept = mixer == model.ShortConv || mixer == model.Mamba1
		c.attention(&b, &l.Caches[0])
	}
	if b.expert.up == 0 && b.shared.up > 0 { // a mixture without routed experts
		b.gate, b.up = b.shared.gate, b.shared.up
	}
	if b.gate > 0 {
		c.mlp(&b)
	}
	if b.expert.up > 0 {
		c.experts(&b)
	}
}

// block reads a layer's widths off its parameters.
func (c *counter) block(l *model.Layer) (b block) {
	for i := range l.Params {
		p := &l.Params[i]
		switch p.Part {
		case model.Attention:
			c.projection(p, &b.in, &b.out)
			if p.Linear && strings.Contains(p.Name, "q_b_proj") {
				b.query, b.latents = c.share(&p.Rows), float64(p.Cols.Size)
			}
			b.mixed = b.mixed || strings.Contains(p.Name, "in_proj_qkvz")
		case model.Norm:
			if p.Rows.Size == c.model.HiddenSize && strings.HasSuffix(p.Name, ".weight") {
				b.norms++
			}
			b.normed = b.normed || strings.Contains(p.Name, "q_norm") || strings.Contains(p.Name, "q_layernorm")
		case model.MLP:
			c.projection(p, &b.gate, &b.up)
		case model.MoEShared:
			c.projection(p, &b.shared.gate, &b.shared.up)
		case model.MoEExperts:
			c.projection(p, &b.expert.gate, &b.expert.up)
		case model.MoERouter:
			if p.Cols.Size > 0 {
				b.router += float64(p.Rows.Size)
			}
		}
	}
	return b
}

// projection adds a product's width to what reads the residual stream, or to what writes to
// it.
func (c *counter) projection(p *model.Param, in, out *float64) {
	whole := p.Experts > 0 && c.pass.Layout.EP
	width := func(a *model.Axis) float64 {
		if whole {
			return float64(a.Size)
		}
		return c.share(a)
	}
	switch {
	case !p.Linear && p.Experts == 0:
	case p.Rows.Split == model.Whole && p.Cols.Split == model.Sharded && p.Rows.Size == c.model.HiddenSize:
		*out += width(&p.Cols)
	case p.Cols.Size == c.model.HiddenSize:
		*in += width(&p.Rows)
	}
}

func (c *counter) share(a *model.Axis) float64 { return float64(weights.Share(a, c.ranks)) }

// reduced is the copy that a sum over ranks leaves, in units of h.
func (c *counter) reduced() float64 {
	if c.ranks > 1 {
		return 1
	}
	return 0
}

// packed is a product's input of width elements, turned into bytes with a float32 scale for
// each 128.
func (c *counter) packed(width float64) float64 {
	if !c.pass.Packed {
		return 0
	}
	return (width + width/128*4) / c.elem
}

// float32s are n copies of width elements in float32.
func (c *counter) float32s(n, width float64) float64 { return n * width * 4 / c.elem }

// heldBefore is what a layer holds in units of h while it attends: the stream and its
// residual as they came, and both as the norm made them. Compiled, the norm's stream is the
// product's own input.
func (c *counter) heldBefore() float64 {
	if c.pass.Compiled {
		return 3
	}
	return c.held(4, 2)
}

// heldAfter is the same while the MLP runs. Compiled, what lives is the residual as it came
// and as the norm made it, and the output of attention, at which the graph is cut.
func (c *counter) heldAfter(b *block) float64 {
	if c.pass.Compiled {
		return 2 + b.out/max(c.hidden, 1)
	}
	return c.held(4, 3)
}

func (c *counter) held(fused, adding float64) float64 {
	switch {
	case !c.habit.adds:
		return fused
	case c.habit.hands:
		return adding + 1
	}
	return adding
}

// writeBack notes the product that writes inner elements back to the stream: while its input
// is packed, and while ranks sum.
func (c *counter) writeBack(at Moment, width, held, inner float64) {
	c.note(at, width+(held+1)*c.hidden+c.packed(inner), 0)
	c.note(at, width+(held+1+c.reduced())*c.hidden, 0)
}

// attention notes what a layer holds while it attends. In the profiling pass no attention
// runs: its output is there, and nothing of its inside.
func (c *counter) attention(b *block, cache *model.Cache) {
	held := c.heldBefore()
	if cache.Kind == model.Recurrent {
		c.mixer(b, &cache.State)
		return
	}
	if a := &cache.Expanded; a.QueryHeads > 0 {
		heads := float64(max(a.QueryHeads/c.ranks, 1))
		width := b.in + b.query + b.latents + float64(cache.Attn.LatentDim) + b.out
		expanded := float64(c.pass.Context) * heads * float64(a.KeyDim-(cache.Attn.KeyDim-cache.Attn.LatentDim)+a.ValueDim) * c.elem
		c.note(Attention, width+held*c.hidden, expanded)
		c.writeBack(Attention, width, held, b.out)
		return
	}
	query := float64(max(cache.Attn.QueryHeads/c.ranks, 1) * cache.Attn.KeyDim)
	key := float64(max(cache.Attn.KVHeads/c.ranks, 1) * cache.Attn.KeyDim)
	width := b.in + b.out
	if b.normed {
		width += query + key
	}
	switch {
	case c.pass.Wrapped && strings.HasPrefix(c.model.TextType, "olmo"): // positions are applied in float32
		c.note(Attention, b.in+c.float32s(4, query)+c.float32s(2, float64(cache.Attn.KeyDim))+4*c.hidden, 0)
	case b.in >= 2*query+2*key: // a gate beside the query: its sigmoid and what it lets through
		c.note(Attention, b.in+5*query+key+held*c.hidden, 0)
		width += query
	}
	c.writeBack(Attention, width, held, b.out)
}

// mixer notes what a layer with a state holds.
func (c *counter) mixer(b *block, s *model.State) {
	held, width := c.heldBefore(), b.in
	switch s.Mixer {
	case model.GatedDeltaNet:
		keys, values := c.spread(s.Groups*s.StateSize), c.spread(s.Heads*s.HeadDim)
		width += 2 * values // the output and its norm
		if b.mixed {
			width += 4*keys + 3*values // taken apart, and together again for the convolution
		}
		c.export(values, s)
	case model.KDA:
		width += 3 * b.out
		c.export(b.out, s)
	case model.Mamba2:
		if s.Groups == 1 && c.ranks == 1 {
			width += b.out // one kernel gates and norms
			break
		}
		c.note(Mixer, width+c.float32s(2, b.out)+b.out+held*c.hidden, 0) // in float32
		return
	default:
		width += 2 * b.out
	}
	c.writeBack(Mixer, width, held, b.out)
}

func (c *counter) spread(n int) float64 { return float64(n) / float64(c.ranks) }

// export keeps the states of a gated delta net at each step of the grid (vllm
// model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py).
func (c *counter) export(values float64, s *model.State) {
	if c.pass.Grid > 0 {
		c.kept = max(c.kept, math.Ceil(float64(c.pass.Tokens)/float64(c.pass.Grid))*values*float64(s.StateSize)*4)
	}
}

// mlp notes a dense MLP, which reads gate elements off the stream and writes up back.
func (c *counter) mlp(b *block) {
	gate, up := b.gate, b.up
	held, width := c.heldAfter(b), gate+up
	if b.kept || c.pass.Wrapped && b.norms == 1 { // attention runs beside the MLP
		held++
	}
	if c.pass.Wrapped && gate == up && c.newGELU() {
		width += 2 * up // Transformers' own spells out the polynomial
	}
	c.note(MLP, width+held*c.hidden, 0)
	if c.habit.drops || c.pass.Compiled || gate == up {
		width -= gate
	}
	c.writeBack(MLP, width, held, up)
}

func (c *counter) newGELU() bool {
	name, _ := c.model.Config.Text("hidden_act")
	return name == "gelu_new"
}

// experts notes routed experts and those that all tokens share. The rows that tokens become
// lie in the workspace (vllm fused_moe/experts/triton_moe.py, workspace_shapes), or in two
// tensors of their own.
func (c *counter) experts(b *block) {
	held, each, h := c.heldAfter(b), float64(c.model.ExpertsPerToken), c.hidden
	router := c.float32s(1, b.router)
	if c.pass.Ragged {
		up := float64(int64(b.expert.up+63) / 64 * 64)
		c.note(Experts, each*(h+up)+(held+1)*h+router, 0)
		return
	}
	c.kept = max(c.kept, float64(c.pass.Tokens)*each*c.elem*(max(b.expert.gate, h)+max(b.expert.up, h)))
	both := 1.0
	if b.shared.up > 0 {
		both = 3 // routed, shared, and their sum
		c.note(Experts, b.shared.gate+b.shared.up+(held+1)*h+router, 0)
	}
	c.note(Experts, (held+both+c.reduced())*h+router, 0)
}
