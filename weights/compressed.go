package weights

import (
	"errors"
	"fmt"
	"strings"

	"headcount/checkpoint"
)

// compressedTensors reads config_groups: each a scheme and the modules that it is for, by
// name, by pattern, or "Linear" for all; and the list of those that are left out
// (compressed_tensors.py CompressedTensorsConfig).
func compressedTensors(block *checkpoint.Object) (*method, error) {
	var groups []configGroup
	configs := block.Dict("config_groups")
	for _, key := range configs.Keys() {
		v, _ := configs.Get(key)
		g, err := newConfigGroup(v.Dict(), block.Text("format"))
		if err != nil {
			return nil, err
		}
		if g != nil {
			groups = append(groups, *g)
		}
	}
	ignored, err := newMatcher(list(block, "ignore"), others(block, "ignore")...)
	if err != nil {
		return nil, err
	}
	if transformsOnline(block.Dict("transform_config")) {
		return nil, errors.New("weights are quantised: compressed-tensors with transforms of inputs or outputs")
	}
	patterns := len(ignored.patterns) + len(groups)
	for i := range groups {
		patterns += len(groups[i].targets.patterns)
	}
	out := &method{scales: sixScales, patterns: patterns, scheme: func(t target) (*scheme, error) { return groupOf(groups, ignored, t) }}
	if block.Dict("kv_cache_scheme").Text("strategy") == "attn_head" {
		out.scales = sixScalesAHead
	}
	return out, nil
}

// transformsOnline reports whether anything but the weights themselves is transformed: that
// takes parameters of its own (compressed_tensors/transform/linear.py).
func transformsOnline(o *checkpoint.Object) bool {
	groups := o.Dict("config_groups")
	for _, key := range groups.Keys() {
		v, _ := groups.Get(key)
		applied, _ := v.Dict().Get("apply")
		for _, one := range applied.List() {
			if !strings.HasPrefix(one.Dict().Text("location"), "weight_") {
				return true
			}
		}
	}
	return false
}

// groupOf finds the scheme of a module: nil when it is left out or no group is for it.
func groupOf(groups []configGroup, ignored *matcher, t target) (*scheme, error) {
	if t.kind == expertModule { // each projection of the first expert must have the same
		var first *scheme
		for i, piece := range t.pieces {
			s, err := groupOf(groups, ignored, target{path: piece})
			if err != nil || i > 0 && s != first {
				return nil, fmt.Errorf("projections of %s are not quantised alike", piece)
			}
			first = s
		}
		return first, nil
	}
	skipped, err := t.about(ignored.matches)
	if err != nil || skipped {
		return nil, err
	}
	for i := range groups {
		if targeted, err := t.about(groups[i].targets.matches); targeted || err != nil {
			return groups[i].scheme, err
		}
	}
	for i := range groups {
		if groups[i].linear && t.kind != headModule {
			return groups[i].scheme, nil
		}
	}
	return nil, nil
}

// A configGroup is a scheme and the modules that it is for.
type configGroup struct {
	scheme  *scheme
	targets *matcher
	linear  bool // for all linear modules
}

// newConfigGroup reads one group; nil for one that is about attention alone, which vLLM
// leaves to the cache.
func newConfigGroup(o *checkpoint.Object, format string) (*configGroup, error) {
	g := &configGroup{}
	names := list(o, "targets")
	towers := others(o, "targets")
	for _, name := range names {
		if !strings.HasPrefix(name, expression) && strings.Contains("linear", strings.ToLower(name)) {
			g.linear = true
		}
		if len(names) == 1 && strings.HasSuffix(name, "Attention") {
			return nil, nil
		}
	}
	var err error
	if g.targets, err = newMatcher(names, towers...); err != nil {
		return nil, err
	}
	if f := o.Text("format"); f != "" {
		format = f
	}
	if g.scheme = groupScheme(o, format); g.scheme == nil {
		w := o.Dict("weights")
		err = fmt.Errorf("weights are quantised: compressed-tensors of %d bits, %.20q, %.20q, %.40q", w.FirstInt("num_bits"), w.Text("type"), w.Text("strategy"), format)
	}
	return g, err
}

// groupScheme is the layout of a group (_get_scheme_from_parts), nil for one that is not
// known.
func groupScheme(o *checkpoint.Object, format string) *scheme {
	w, in := o.Dict("weights"), o.Dict("input_activations")
	bits, group, strategy, kind := w.FirstInt("num_bits"), w.FirstInt("group_size"), w.Text("strategy"), w.Text("type")
	static := in != nil && !dynamic(in)
	switch {
	case o.Dict("output_activations") != nil || dynamic(w) || group < -1 || group > maxGroup:
		return nil
	case kind == "float" && bits == 4 && strategy == "tensor_group" && group == 16:
		if in == nil {
			return nvfp4(group)
		}
		return nvfp4(group, scalePerTensor)
	case kind == "float" && bits == 4 && strategy == "group" && group == 32:
		return mxfp4()
	case kind == "float" && bits == 8 && strategy == "group" && group == 32 && w.Text("scale_dtype") == "torch.uint8":
		return mxfp8()
	case kind == "float" && bits == 8:
		return groupFP8(w, strategy, static)
	case kind == "int" && in == nil && format == "pack-quantized" && (bits == 4 || bits == 8) && (strategy == "channel" || strategy == "group" && group > 0):
		if strategy == "channel" {
			group = 0
		}
		return packedInts(bits, group, symmetric(w))
	case kind == "int" && in != nil && bits == 8 && in.FirstInt("num_bits") == 8 && symmetric(w) && (strategy == "channel" || strategy == "tensor"):
		return groupInt8(in, strategy, static)
	}
	return nil
}

// groupFP8 is FP8 with scales for blocks, for outputs or for the whole.
func groupFP8(w *checkpoint.Object, strategy string, static bool) *scheme {
	switch strategy {
	case "channel":
		return perRow(static)
	case "tensor":
		return perTensor(static)
	case "block":
		if n, k, ok := pair(w, "block_structure"); ok {
			return wholeBlocks(blocks(n, k, scalePerRow.dtype, allBlocks), n, k)
		}
	}
	return nil
}

// groupInt8 is whole numbers of 8 bits with inputs of the same (compressed_tensors_w8a8_int8.py).
func groupInt8(in *checkpoint.Object, strategy string, static bool) *scheme {
	s := ints8(strategy == "channel")
	if static {
		s.experts = nil
		s.linear = append(s.linear, scalePerModule)
		if !symmetric(in) {
			s.linear = append(s.linear, tensor{dtype: int8.dtype, joined: true})
		}
	}
	return s
}

// dynamic reports whether scales come with the data: true, or "local".
func dynamic(o *checkpoint.Object) bool {
	v, _ := o.Get("dynamic")
	yes, _ := v.Bool()
	s, _ := v.Text()
	return yes || s == "local"
}

// symmetric is true where a config says nothing (compressed_tensors QuantizationArgs).
func symmetric(o *checkpoint.Object) bool {
	v, ok := o.Get("symmetric")
	yes, isBool := v.Bool()
	return !ok || !isBool || yes
}
