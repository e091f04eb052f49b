package convert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/model"
	"headcount/problem"
)

// A layer is one decoder layer whose heads are pooled: where its tensors are.
type layer struct {
	name     string // "model.layers.3"
	from, to *model.Layer
	tensors  map[string]checkpoint.Tensor // by their names inside the layer
}

// planLayers finds every layer's tensors, holds them to what the config says, and plans the
// change of those in which KV heads have rows.
func (c *Conversion) planLayers() error {
	places := c.places()
	prefix, err := c.decoder(places)
	if err != nil {
		return err
	}
	for i, from := range c.From.Layers {
		l := layer{name: prefix + strconv.Itoa(i), from: from, to: c.To.Layers[i], tensors: places[prefix][i]}
		if err := c.planLayer(l); err != nil {
			return err
		}
	}
	if err := c.planDraft(places, prefix); err != nil {
		return err
	}
	for i := range c.Changes {
		c.byTensor[c.Changes[i].Tensor.Name] = &c.Changes[i]
	}
	return c.refuseOthers()
}

// places are the checkpoint's tensors by what comes before the first number in their names
// ("model.layers."), by that number and by what follows it.
func (c *Conversion) places() map[string]map[int]map[string]checkpoint.Tensor {
	out := map[string]map[int]map[string]checkpoint.Tensor{}
	for _, shard := range c.shards {
		for _, t := range shard.Tensors {
			prefix, number, inside, ok := cutLayer(t.Name)
			if !ok {
				continue
			}
			if out[prefix] == nil {
				out[prefix] = map[int]map[string]checkpoint.Tensor{}
			}
			if out[prefix][number] == nil {
				out[prefix][number] = map[string]checkpoint.Tensor{}
			}
			out[prefix][number][inside] = t
		}
	}
	return out
}

// cutLayer cuts a name at its first number: "model.layers.", 3, "self_attn.k_proj.weight".
func cutLayer(name string) (prefix string, number int, inside string, ok bool) {
	for at := 0; ; {
		part, rest, more := strings.Cut(name[at:], ".")
		if !more {
			return "", 0, "", false
		}
		if n, err := strconv.ParseUint(part, 10, 31); err == nil {
			return name[:at], int(n), rest, true
		}
		at += len(part) + 1
	}
}

// decoder is the prefix under which the text model's layers are. A tower beside it may
// name its tensors alike; it is the one that has the config's layers, in the config's
// shapes, that is meant.
func (c *Conversion) decoder(places map[string]map[int]map[string]checkpoint.Tensor) (string, error) {
	var fits []string
	best, most := "", 0
	for _, prefix := range slices.Sorted(maps.Keys(places)) {
		if len(c.From.Draft) > 0 && ofMTP(prefix) {
			continue
		}
		named, shaped := c.matches(places[prefix])
		if named > most {
			best, most = prefix, named
		}
		if shaped == len(c.From.Layers) {
			fits = append(fits, prefix)
		}
	}
	switch {
	case len(fits) > 1:
		return "", problem.New(problem.NotKnown, "", nil, "%s: %q and %q both hold layers of the config's shapes", c.Name, fits[0], fits[1])
	case len(fits) == 1:
		return fits[0], nil
	case most == 0:
		return "", c.noHeads()
	}
	return best, nil // and its first tensor that does not fit is the error
}

// matches counts the layers that have the names and, of these, the shapes of the config.
func (c *Conversion) matches(layers map[int]map[string]checkpoint.Tensor) (named, shaped int) {
	for i, from := range c.From.Layers {
		has, fits := true, true
		for _, p := range from.Projections() {
			t, ok := layers[i][p.Name]
			has = has && ok
			fits = fits && ok && checkShape(t, p) == nil
		}
		if has {
			named++
			if fits {
				shaped++
			}
		}
	}
	return named, shaped
}

// noHeads says why no tensor with KV heads was found.
func (c *Conversion) noHeads() error {
	want := ""
	for _, l := range c.From.Layers {
		if p := l.Projections(); len(p) > 0 {
			want = p[0].Name
			break
		}
	}
	switch {
	case want == "":
		return problem.New(problem.NotKnown, "architectures", c.From.Architecture, "where its tensors keep KV heads is not known")
	case c.From.Quantization != "":
		return c.quantised(want, c.From.Quantization)
	}
	return problem.New(problem.MissingField, "", nil, "%s: no layer has the tensor %s of %s", c.Name, want, c.From.Architecture)
}

// quantised refuses weights that are not plain numbers.
func (c *Conversion) quantised(tensor, how string) *problem.Error {
	return problem.New(problem.Unsupported, "", nil, "%s is stored as %s: heads with scales of their own have no mean", tensor, how).
		WithHint("convert the checkpoint as it was before quantisation, in bfloat16, float16 or float32, and quantise the result")
}

// planLayer checks one layer and plans its changes.
func (c *Conversion) planLayer(l layer) error {
	old, pooled := l.from.Projections(), l.to.Projections()
	if len(old) != len(pooled) || !sameOthers(l.from, l.to) {
		return problem.New(problem.Unsupported, strings.Join(c.Edits[0].Path, "."), nil, "changes more of %s than its KV heads", c.From.Architecture)
	}
	if len(old) == 0 && caches(l.from) {
		return problem.New(problem.NotKnown, "architectures", c.From.Architecture, "where its tensors keep KV heads is not known")
	}
	if err := c.checkAttention(l, old); err != nil {
		return err
	}
	changed := false
	for i, p := range old {
		t := l.tensors[p.Name]
		if slices.Equal(p.Blocks, pooled[i].Blocks) {
			continue
		}
		change, err := c.change(t, p, pooled[i])
		if err != nil {
			return err
		}
		change.layer = len(c.layers)
		c.Changes = append(c.Changes, change)
		c.Saved += t.Bytes - change.Bytes
		changed = true
	}
	if changed {
		c.layers = append(c.layers, l)
	}
	return nil
}

// caches reports whether a layer keeps keys and values of its own.
func caches(l *model.Layer) bool {
	return slices.ContainsFunc(l.Caches, func(c model.Cache) bool {
		return c.Kind == model.Full || c.Kind == model.Sliding || c.Kind == model.Chunked
	})
}

// sameOthers reports whether two layers have the same parameters but for their KV heads.
func sameOthers(a, b *model.Layer) bool {
	size := func(p model.Param) [3]any {
		if p.Role == model.Keys || p.Role == model.Values {
			return [3]any{p.Name, p.Rows.Unit, p.Cols.Size}
		}
		return [3]any{p.Name, p.Rows.Size, p.Cols.Size}
	}
	return slices.EqualFunc(a.Params, b.Params, func(x, y model.Param) bool { return size(x) == size(y) })
}

// checkAttention holds a layer's attention to the config: every tensor with heads is there,
// in its shape, and nothing that is not known is beside them.
func (c *Conversion) checkAttention(l layer, projections []model.Projection) error {
	if len(projections) == 0 {
		return nil
	}
	for _, p := range slices.Concat(projections, others(l.from)) {
		t, ok := l.tensors[p.Name]
		full := l.name + "." + p.Name
		switch {
		case !ok && c.From.Quantization != "":
			return c.quantised(full, c.From.Quantization)
		case !ok:
			return problem.New(problem.MissingField, "", nil, "%s: not in the checkpoint; the config wants %v", full, wantShape(p))
		}
		if err := checkShape(t, p); err != nil {
			return err
		}
		c.planned[full], c.shapes[p.Name] = true, p
	}
	known := map[string]bool{}
	for _, p := range l.from.Params {
		known[p.Name] = true
	}
	module, _, _ := strings.Cut(projections[0].Name, ".")
	for _, inside := range slices.Sorted(maps.Keys(l.tensors)) {
		if t := l.tensors[inside]; strings.HasPrefix(inside, module+".") && !known[inside] && !headless(t) {
			return problem.New(problem.NotKnown, "", nil, "%s: of shape %v, and the config has no such tensor", t.Name, t.Shape).
				WithHint("whether KV heads have a part in it is not known")
		}
	}
	return nil
}

// others are the other tensors of attention that belong to heads: queries of their own and
// the output, as projections without KV heads.
func others(l *model.Layer) []model.Projection {
	var out []model.Projection
	fused := map[string]bool{}
	for _, p := range l.Projections() {
		fused[p.Name] = true
	}
	for _, p := range l.Params {
		if p.Role != model.NoRole && !fused[p.Name] {
			out = append(out, model.Projection{Name: p.Name, Rows: p.Rows.Size, Cols: p.Cols.Size, Transposed: p.Transposed})
		}
	}
	return out
}

// headless are tensors that no head has a part in: scales of a whole tensor, and what
// classes compute anew.
func headless(t checkpoint.Tensor) bool {
	return elements(t.Shape) <= 1 || slices.ContainsFunc([]string{"inv_freq", ".masked_bias", ".attn.bias", ".attention.bias"},
		func(s string) bool { return strings.HasSuffix(t.Name, s) })
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

func wantShape(p model.Projection) []int64 {
	switch rows, cols := int64(p.Rows), int64(p.Cols); {
	case cols == 0:
		return []int64{rows}
	case p.Transposed:
		return []int64{cols, rows}
	default:
		return []int64{rows, cols}
	}
}

// checkShape wants the shape of the config. A norm over heads may have them as an axis of
// their own.
func checkShape(t checkpoint.Tensor, p model.Projection) error {
	want := wantShape(p)
	if slices.Equal(t.Shape, want) || p.Cols == 0 && len(t.Shape) == 2 && elements(t.Shape) == want[0] && byHead(t, p) {
		return nil
	}
	return problem.New(problem.BadValue, t.Name, fmt.Sprint(t.Shape), "the config wants %v", want).
		WithHint("the config and the tensors disagree: they may be of two checkpoints")
}

// byHead reports whether a vector is stored as [heads, width].
func byHead(t checkpoint.Tensor, p model.Projection) bool {
	for _, b := range p.Blocks {
		if int64(b.Rows) != t.Shape[1] {
			return false
		}
	}
	return true
}

// ofMTP reports whether a prefix is that of layers of an MTP head.
func ofMTP(prefix string) bool { return slices.Contains(strings.Split(prefix, "."), "mtp") }

// planDraft plans the layers of the checkpoint's own MTP heads: after the decoder's, or
// under "mtp".
func (c *Conversion) planDraft(places map[string]map[int]map[string]checkpoint.Tensor, decoder string) error {
	for _, prefix := range slices.Sorted(maps.Keys(places)) {
		first := 0
		switch {
		case prefix == decoder:
			first = len(c.From.Layers)
		case !ofMTP(prefix):
			continue
		}
		for _, number := range slices.Sorted(maps.Keys(places[prefix])) {
			i := number - first
			if i < 0 || i >= len(c.From.Draft) {
				continue
			}
			l := layer{name: prefix + strconv.Itoa(number), from: c.From.Draft[i], to: c.To.Draft[i], tensors: places[prefix][number]}
			if err := c.planLayer(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuseOthers names a tensor outside of the layers that are planned which looks as if it
// kept the same heads: a layer more than the config has, or a part that is not known.
func (c *Conversion) refuseOthers() error {
	for _, shard := range c.shards {
		for _, t := range shard.Tensors {
			_, _, inside, ok := cutLayer(t.Name)
			p, alike := c.shapes[inside]
			if ok && alike && !c.planned[t.Name] && len(p.Blocks) > 0 && p.Cols > 0 && checkShape(t, p) == nil {
				return problem.New(problem.BadValue, t.Name, fmt.Sprint(t.Shape), "KV heads in a layer that the config does not have").
					WithHint("the config has %d layers", len(c.From.Layers))
			}
		}
	}
	return nil
}

// change plans one tensor.
func (c *Conversion) change(t checkpoint.Tensor, from, to model.Projection) (Change, error) {
	if formatOf(t.DType) == dtype.Unknown {
		return Change{}, c.quantised(t.Name, t.DType)
	}
	out := Change{Tensor: t, Inside: from.Name, Shape: slices.Clone(t.Shape), width: int64(max(from.Cols, 1))}
	out.Shape[0] = t.Shape[0] / int64(from.Rows) * int64(to.Rows)
	if len(t.Shape) == 2 && from.Cols == 0 {
		out.Shape[0] = int64(len(to.Blocks))
	}
	out.Bytes = t.Bytes / int64(from.Rows) * int64(to.Rows)
	type key struct {
		role model.Role
		head int
	}
	starts, at := map[key]int64{}, int64(0)
	for _, b := range from.Blocks {
		starts[key{b.Role, b.Head}] = at
		at += int64(b.Rows)
	}
	for _, b := range to.Blocks {
		next := block{role: b.Role, head: b.Head, rows: int64(b.Rows)}
		if b.Role == model.Queries {
			next.from = []int64{starts[key{b.Role, b.Head}]}
		} else {
			for i := range c.Group() {
				next.from = append(next.from, starts[key{b.Role, b.Head*c.Group() + i}])
			}
		}
		out.blocks = append(out.blocks, next)
	}
	return out, nil
}
