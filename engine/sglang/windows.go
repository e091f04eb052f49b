package sglang

import (
	"slices"

	"headcount/checkpoint"
	"headcount/problem"
)

// hybridModel reports whether the model may have a window pool beside the full one
// (is_hybrid_swa_model).
func (r *reading) hybridModel() bool {
	switch {
	case r.arch == "BeamForCausalLM":
		return r.hasLayerType("sliding_attention")
	case r.arch == "LagunaForCausalLM":
		n, _ := r.config.size("sliding_window")
		return n > 0
	case r.entry.has(hybridSWA | sinks | mimo):
		return true
	}
	return r.config.truth("is_hybrid_swa")
}

func (r *reading) hasLayerType(kind string) bool {
	return slices.ContainsFunc(r.layerTypes(), func(v checkpoint.Value) bool { return isText(v, kind) })
}

// onlyLayerType reports whether layer_types names each layer, and all alike.
func (r *reading) onlyLayerType(kind string) bool {
	list := r.layerTypes()
	return len(list) > 0 && int64(len(list)) == r.layers &&
		!slices.ContainsFunc(list, func(v checkpoint.Value) bool { return !isText(v, kind) })
}

func (r *reading) layerTypes() []checkpoint.Value {
	list, _ := r.config.text.List("layer_types")
	return list
}

func isText(v checkpoint.Value, text string) bool {
	s, ok := v.Text()
	return ok && s == text
}

// windows reads the sliding layers' shape, which layers slide, and the window.
func (r *reading) windows() {
	f, w := &r.config, &r.window
	if n, ok := f.size("swa_num_key_value_heads"); ok {
		w.kvHeads = n
	} else if other := f.text.Object("attention_other_setting"); other != nil {
		w.kvHeads = sizeIn(other, "num_attention_groups")
	}
	w.chunk, _ = f.size("attention_chunk_size")
	for _, key := range []string{"sliding_window_size", "sliding_window", "window_size"} {
		if n, ok := f.text.Int(key); ok {
			w.config = max(n, 0)
			break
		}
	}
	w.size, w.reported = r.reportedWindow()
	switch r.arch {
	case "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "EmbeddingGemma2Model", "InklingForConditionalGeneration",
		"InklingForConditionalGenerationMTP", "Gemma4UnifiedForConditionalGeneration", "DiffusionGemmaForBlockDiffusion", "MiMoV2MTP":
		w.own = true
	default:
		w.own = r.entry.has(mimo)
	}
	if r.hybridModel() && !r.isV4() {
		r.kinds = r.layerKinds()
	}
}

// reportedWindow is what the model class says its window is.
func (r *reading) reportedWindow() (size int64, reported bool) {
	rule := r.entry.window
	switch {
	case rule.fixed > 0:
		return rule.fixed, true
	case rule.field == "":
		return 0, false
	case rule.field == "efficient_attention_config.swa.window_size":
		swa, _ := r.config.text.Object("efficient_attention_config").Get("swa")
		v, _ := swa.Dict().Get("window_size")
		n, _ := v.Int()
		if !r.hasLayerType("swa") {
			n = 0
		}
		return n, true
	}
	n, ok := r.config.text.Int(rule.field)
	if !ok {
		if v, given := r.config.text.Raw().Get(rule.field); given && v.Kind() == checkpoint.Null && rule.strict {
			r.config.fail(problem.BadValue, rule.field, nil, "null, and the engine subtracts from it")
		}
		return 0, true
	}
	return max(n-rule.minus, 0), true
}

// layerKinds says which layers slide (get_hybrid_layer_ids). Layers that are neither
// have no pool.
func (r *reading) layerKinds() []layerKind {
	if r.layers > maxLayers {
		return nil
	}
	kinds := make([]layerKind, r.layers)
	switch {
	case r.arch == "Llama4ForConditionalGeneration":
		for i := range kinds {
			kinds[i] = slides
			if (i+1)%4 == 0 {
				kinds[i] = whole
			}
		}
	case r.arch == "UnlimitedOCRForCausalLM":
		for i := range kinds {
			kinds[i] = slides
		}
	case r.arch == "InklingForConditionalGeneration":
		for i := range kinds {
			kinds[i] = whole
		}
		r.mark(kinds, "local_layer_ids", slides)
	case r.entry.has(mimo) || !r.entry.has(hybridSWA|sinks):
		r.pattern(kinds)
	default:
		list, _ := r.config.text.List("layer_types")
		for i := range min(len(kinds), len(list)) {
			switch text, _ := list[i].Text(); text {
			case "sliding_attention":
				kinds[i] = slides
			case "full_attention":
				kinds[i] = whole
			}
		}
	}
	return kinds
}

// pattern reads hybrid_layer_pattern: 1 slides, 0 is full.
func (r *reading) pattern(kinds []layerKind) {
	list, ok := r.config.text.List("hybrid_layer_pattern")
	if !ok || len(list) < len(kinds) {
		r.config.fail(problem.BadValue, "hybrid_layer_pattern", len(list), "does not name a kind for each of %d layers", len(kinds))
		return
	}
	for i := range kinds {
		switch n, _ := list[i].Int(); n {
		case 0:
			kinds[i] = whole
		case 1:
			kinds[i] = slides
		}
	}
}

// mark sets the layers that a list of ids names.
func (r *reading) mark(kinds []layerKind, key string, kind layerKind) {
	list, _ := r.config.text.List(key)
	for _, v := range list {
		if n, ok := v.Int(); ok && n >= 0 && n < int64(len(kinds)) {
			kinds[n] = kind
		}
	}
}
