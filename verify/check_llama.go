package verify

import (
	"fmt"
	"math"

	"headcount/engine/llamacpp"
	"headcount/model"
	"headcount/problem"
	"headcount/units"
)

// llama compares a start of llama.cpp: the bytes of each cache with those that its cells
// take, of the model that is given, or of the widths that the log itself prints.
func (c *comparison) llama() error {
	req := c.request
	req.Engine = ""
	var m *model.Model
	if req.Model != "" || len(req.Config) > 0 {
		var err error
		if m, err = c.planner.Model(c.ctx, req); err != nil && !c.said("n_embd_k_gqa") {
			return err
		}
	}
	if m != nil {
		c.report.Model = m.Name
	} else if !c.said("n_embd_k_gqa") {
		return problem.New(problem.MissingField, "model", nil, "%s names no model that is at hand, nor the widths of its layers", c.seen.Source).
			WithHint("--model NAME, or a folder or config.json")
	} else {
		c.report.Assumed = append(c.report.Assumed, "equal layers, of the widths that the log prints (--model)")
	}
	for _, prefix := range [...]string{"", "swa_"} {
		if err := c.llamaCache(m, prefix); err != nil {
			return err
		}
	}
	c.llamaStates(m)
	return nil
}

// llamaCache checks the bytes of one cache's line.
func (c *comparison) llamaCache(m *model.Model, prefix string) error {
	printed, ok := c.seen.Size(prefix + "k_bytes")
	if !ok {
		return nil
	}
	cells, ok := c.seen.Int(prefix + "cells")
	if !ok {
		if cells, ok = c.seen.Int("n_ctx"); !ok {
			return problem.New(problem.MissingField, "n_ctx", nil, "%s prints neither cells nor a context size", c.seen.Source)
		}
	}
	k, okK := llamacpp.FormatOf(c.seen.Text(prefix + "k_type"))
	v, okV := llamacpp.FormatOf(c.seen.Text(prefix + "v_type"))
	values, haveValues := c.seen.Size(prefix + "v_bytes")
	if !okV {
		v, okV = k, true // a cache of latents prints no values, nor their format
	}
	if !okK || !okV {
		return problem.New(problem.NotKnown, prefix+"k_type", c.seen.Text(prefix+"k_type"), "not a format of cache rows that is known")
	}
	latent := haveValues && values.Bytes == 0 || !haveValues && m != nil
	cache, window, ok := c.cacheOf(m, prefix, latent)
	if m != nil && !ok && prefix == "" {
		if conv, state, layers := llamacpp.States(m); layers == len(m.Layers) { // builds before the middle of 2025 call states so
			c.within("k_bytes", conv, printed, "what convolutions keep, in float32")
			c.within("v_bytes", state, values, "states, in float32")
			return nil
		}
	}
	if !ok {
		return problem.New(problem.NotKnown, "layers", nil, "the layers that %s prints are not those of %s", c.seen.Source, c.report.Model)
	}
	wantK, wantV := cache.Bytes(cells, k, v)
	how := fmt.Sprintf("%s cells × %s", units.Group(cells), units.Plural(cache.Layers(), "layer"))
	c.within(prefix+"k_bytes", wantK, printed, how)
	if haveValues {
		c.within(prefix+"v_bytes", wantV, values, how)
	}
	if n, ok := c.seen.Int("n_ctx"); ok && prefix == "" && !window && c.said("cells") && !c.said("caches") {
		c.cellCount(n, cells)
	}
	return nil
}

// cellCount checks that cells are the context, rounded up to what the attention kernels take
// at a time: 32, or 256 in flash attention and newer builds.
func (c *comparison) cellCount(context, cells int64) {
	up := func(to int64) int64 { return (context + to - 1) / to * to }
	predicted := up(256)
	if cells == up(32) || cells == context {
		predicted = cells
	}
	if seqs, ok := c.seen.Int("n_seq_max"); cells < context || ok && seqs > 1 && cells != predicted {
		return // of a window, or divided over sequences
	}
	c.exact("cells", predicted, cells, "the context, rounded up")
}

// cacheOf is the cache that a line speaks of: the layers are those that it counts, or all of
// them, as builds count layers that keep nothing. window tells that it is that of windows.
func (c *comparison) cacheOf(m *model.Model, prefix string, latent bool) (cache llamacpp.Cache, window, ok bool) {
	layers, counted := c.seen.Int(prefix + "layers")
	if m == nil {
		cache, ok = c.printedCache(layers)
		return cache, false, ok
	}
	full, windows := llamacpp.Caches(m, !latent)
	all := full.And(windows)
	fits := func(cache llamacpp.Cache) bool {
		return cache.Layers() > 0 && (!counted || int64(cache.Layers()) == layers)
	}
	switch {
	case prefix == "" && (fits(all) || all.Layers() > 0 && counted && int64(len(m.Layers)) == layers):
		return all, false, true
	case prefix == "" && fits(full):
		return full, false, true
	case fits(windows):
		return windows, true, true
	}
	return full, false, fits(full)
}

// printedCache is equal layers of the widths that the log prints.
func (c *comparison) printedCache(layers int64) (llamacpp.Cache, bool) {
	if layers == 0 {
		layers, _ = c.seen.Int("n_layer")
	}
	k, okK := c.seen.Int("n_embd_k_gqa")
	v, okV := c.seen.Int("n_embd_v_gqa")
	if !okK || !okV || k == 0 || layers <= 0 || layers > 1<<16 || max(k, v) > math.MaxInt32 {
		return llamacpp.Cache{}, false
	}
	var cache llamacpp.Cache
	for range layers {
		cache.Keys, cache.Values = append(cache.Keys, k), append(cache.Values, v)
	}
	return cache, true
}

// llamaStates checks the bytes of recurrent states.
func (c *comparison) llamaStates(m *model.Model) {
	cells, ok := c.seen.Int("state_cells")
	if !ok || m == nil {
		return
	}
	conv, state, layers := llamacpp.States(m)
	if n, ok := c.seen.Int("state_layers"); ok {
		c.exact("state_layers", int64(layers), n, "")
	}
	how := fmt.Sprintf("%s of %s in float32", units.Plural(int(cells), "sequence"), units.Plural(layers, "layer"))
	if size, ok := c.seen.Size("state_r_bytes"); ok {
		c.within("state_r_bytes", cells*conv, size, how)
	}
	if size, ok := c.seen.Size("state_s_bytes"); ok {
		c.within("state_s_bytes", cells*state, size, how)
	}
}
