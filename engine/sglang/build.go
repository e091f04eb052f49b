package sglang

import (
	"strings"

	"headcount/attn"
	"headcount/dtype"
	"headcount/problem"
)

// setup is what pools depend on, from flags and the model's reading.
func (f *flags) setup(s *setup) *problem.Error {
	*s = setup{
		ranks: int64(f.lay.TP) * int64(f.lay.PP), attnDP: f.attnDP, dcp: int64(f.lay.DCP),
		fraction: f.fraction, page: f.page, chunk: f.chunk, maxPrefill: f.maxPrefill,
		maxRunning: f.maxRunning, maxTokens: f.opts.MaxTotalTokens,
		swaRatio: f.swaRatio, noRadix: f.noRadix, noOverlap: f.noOverlap, reserveMiB: f.reserveMiB,
	}
	var refusal *problem.Error
	if s.context, refusal = f.contextLen(); refusal != nil {
		return refusal
	}
	if f.dtype, refusal = f.modelDType(); refusal != nil {
		return refusal
	}
	if refusal = f.quantize(); refusal != nil {
		return refusal
	}
	if s.store, refusal = f.storage(); refusal != nil {
		return refusal
	}
	f.rows(s)
	if refusal = f.stateSetup(s); refusal != nil {
		return refusal
	}
	f.cut(s)
	for i := range s.stages {
		if s.sliding != nil && s.stages[i].sliding == 0 {
			return problem.New(problem.Unsupported, "pipeline_parallel_size", f.lay.PP, "stage %d has no sliding layer, and the engine asserts that it has", i).
				WithHint("--disable-hybrid-swa-memory, or fewer stages").By(name)
		}
	}
	return f.drafts(s)
}

// contextLen is the length that --context-length or the config asks for.
func (f *flags) contextLen() (int64, *problem.Error) {
	asked := f.opts.MaxModelLen
	switch {
	case asked <= 0:
		return f.context, nil
	case asked > f.context:
		return 0, problem.New(problem.BadValue, "max_model_len", asked, "longer than the %d tokens that the config has", f.context).
			WithHint("--context-length %d, or SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1", f.context).By(name)
	}
	return asked, nil
}

// modelDType is the model's compute dtype (_get_and_verify_dtype).
func (f *flags) modelDType() (dtype.Type, *problem.Error) {
	switch t, ok := dtype.Parse(f.opts.DType); {
	case f.opts.DType == "" || f.opts.DType == "auto":
	case !ok || t != dtype.Float16 && t != dtype.BFloat16 && t != dtype.Float32:
		return 0, problem.New(problem.BadValue, "dtype", f.opts.DType, "not auto, float16, bfloat16 or float32").By(name)
	}
	if f.dev.major*10+f.dev.minor < 75 {
		return 0, problem.New(problem.Unsupported, "gpu", nil, "the engine runs on compute capability 7.5 and above").By(name)
	}
	return f.dtypeOf(f.reading), nil
}

// dtypeOf is the compute dtype of a model that the server loads with these flags.
func (f *flags) dtypeOf(r *reading) dtype.Type {
	if f.dev.major < 8 {
		return dtype.Float16
	}
	switch { // whatever --dtype says (arg_groups/model_override_base.py, overrides.py)
	case r.arch == "GptOssForCausalLM" && r.quant.method == "mxfp4", r.arch == "MistralLarge3ForCausalLM",
		r.arch == "PixtralForConditionalGeneration":
		return dtype.BFloat16
	}
	if t, ok := dtype.Parse(f.opts.DType); ok {
		return t
	}
	switch {
	case r.dtype == dtype.Float32 && strings.HasPrefix(r.config.text.ModelType(), "gemma"):
		return dtype.BFloat16
	case r.dtype == dtype.Float32:
		return dtype.Float16
	}
	return r.dtype
}

// storage is the cache's element (mem_cache/kv_cache_dtype.py, configure_kv_cache_dtype).
func (f *flags) storage() (store, *problem.Error) {
	switch f.kvDType {
	case "auto":
		if f.quant.kvIsFP8 && f.method == f.quant.method {
			return store{name: dtype.Float8E4M3.String(), bytes: 1}, nil
		}
		return store{name: f.dtype.String(), bytes: f.dtype.Bytes()}, nil
	case "fp8_e5m2":
		return store{name: dtype.Float8E5M2.String(), bytes: 1}, nil
	case "fp8_e4m3":
		return store{name: dtype.Float8E4M3.String(), bytes: 1}, nil
	case "bf16", "bfloat16":
		return store{name: dtype.BFloat16.String(), bytes: 2}, nil
	case "mxfp8":
		return store{name: dtype.Float8E4M3.String(), bytes: 1, format: mxfp8}, nil
	case "fp4_mx_block16":
		return store{name: "float4_e2m1fn_x2", bytes: 1, format: fp4Block}, nil
	case "nvfp4":
		prefill, _ := f.phases()
		s := store{name: "float4_e2m1fn_x2", bytes: 1, format: nvfp4, workspace: prefill == "flashinfer", scales: 1}
		if s.workspace && f.dev.sm100() {
			s.scales = 2 // one layout for each phase
		}
		return s, nil
	}
	return store{}, problem.New(problem.BadValue, "kv_cache_dtype", f.kvDType, "not a format of the engine").
		WithHint("one of auto, bf16, fp8_e4m3, fp8_e5m2, mxfp8, nvfp4, fp4_mx_block16").By(name)
}

// headsOf is the KV heads of one of ranks: the engine floors, and keeps one at least.
func headsOf(total, ranks int64) int64 { return max(1, total/max(ranks, 1)) }

// rows sets what one layer keeps of a token.
func (f *flags) rows(s *setup) {
	sharers := f.attnTP / s.dcp // DCP ranks hold the same heads of other tokens
	heads := headsOf(f.kvHeads, sharers)
	if f.pureState {
		heads = 1
	}
	s.priced = row{heads: heads, key: f.keyDim, value: f.valueDim}
	s.held = s.priced
	if f.attention == attn.MLA {
		s.priced = row{latent: f.latentRow(s)}
		s.held = s.priced
	}
	if f.dsa.on {
		s.index = indexer{row: f.dsa.headDim + f.dsa.headDim/128*4, pool: f.dsa.pool}
	}
	if f.kinds != nil && !f.noHybrid {
		f.slidingRows(s)
	}
	if f.v4 != nil && !f.noHybrid {
		f.compressedModel(s)
	}
	s.qsa = f.qsa
	if f.sparse != nil {
		s.priced.heads = headsOf(f.kvHeads, f.attnTP) // priced without DCP
		s.held.value = f.keyDim
		s.sparse = &sparse{dim: f.sparse.dim, bytes: f.dtype.Bytes(), dtype: f.dtype.String()}
		if s.store.name == dtype.Float8E4M3.String() && (f.dev.sm90() || f.backend == "trtllm_mha" && f.dev.sm100()) {
			s.sparse.bytes, s.sparse.dtype = 1, s.store.name
		}
	}
}

// latentRow is the width of a latent as stored: fp8 sparse attention keeps scales and an
// unquantised rope part in the row (calculate_mla_kv_cache_dim).
func (f *flags) latentRow(s *setup) int64 {
	raw := f.latent.rank + f.latent.rope
	packed := f.dsa.on && s.store.name == dtype.Float8E4M3.String() &&
		f.dsaPrefill != "trtllm" && f.dsaDecode != "trtllm" && !(f.dsaPrefill == "tilelang" && f.dsaDecode == "tilelang")
	if packed {
		return f.latent.rank + f.latent.rank/128*4 + 2*f.latent.rope
	}
	return raw
}

// slidingRows set the window pool. It is priced by plain attention TP, and built with the
// full pool's heads unless the model has heads of its own there.
func (f *flags) slidingRows(s *setup) {
	w := &f.window
	switch {
	case w.reported:
		s.window = w.size
	case w.config > 0:
		s.window = w.config
	default:
		s.window = w.chunk
	}
	if f.attention == attn.MLA {
		latent := row{latent: f.latent.swaRank + f.latent.swaRope}
		s.sliding = &sliding{priced: latent, held: latent}
		return
	}
	s.priced.heads = headsOf(f.kvHeads, f.attnTP)
	windowHeads := s.priced.heads
	if w.kvHeads >= 0 {
		windowHeads = headsOf(w.kvHeads, f.attnTP)
	}
	s.sliding = &sliding{priced: row{heads: windowHeads, key: w.keyDim, value: w.valueDim}}
	if w.own {
		s.sliding.held = s.sliding.priced
		return
	}
	s.held.value = f.keyDim
	s.sliding.held = s.held
}

// stateSetup adds the pool of states.
func (f *flags) stateSetup(s *setup) *problem.Error {
	t := f.states
	if t == nil {
		return nil
	}
	tp := f.attnTP
	if f.pureState || f.arch == "ZayaForCausalLM" {
		tp = int64(f.lay.TP)
	}
	slot, refusal := t.slot(tp)
	if refusal != nil {
		return refusal
	}
	slot.layers = t.count(t.recurrent, 0, f.layers)
	slot.ratio, slot.slots, slot.perReq = f.stateRatio, int64(f.opts.MaxMambaCacheSize), f.slotsPerRequest()
	slot.dense = slot.dense || f.spec.topK > 1
	s.state = &slot
	if s.sliding == nil && f.attention != attn.MLA {
		s.held.value = f.keyDim // this pool has one width for K and V
	}
	return nil
}

// cut divides the layers over pipeline stages: equal shares, the last stages take one more
// (distributed/utils.py, get_pp_indices). A class without a range keeps all layers on each.
func (f *flags) cut(s *setup) {
	pp := int64(f.lay.PP)
	s.stages = s.one[:0]
	for rank := range pp {
		start, end := f.share(rank, pp)
		if s.state != nil { // priced by equal shares even where each stage keeps all
			s.state.most = max(s.state.most, f.states.count(f.states.recurrent, start, end))
		}
		if !f.entry.has(ranged | backend) {
			start, end = 0, max(f.layers, f.attnLayers)
		}
		s.stages = append(s.stages, f.stage(s, start, end))
	}
}

// share is the layers [start, end) of a stage.
func (f *flags) share(rank, stages int64) (start, end int64) {
	base, extra := f.layers/stages, f.layers%stages
	start = rank*base + max(0, rank-(stages-extra))
	end = start + base
	if rank >= stages-extra {
		end++
	}
	return start, end
}

// stage counts the layers [start, end) by what they keep.
func (f *flags) stage(s *setup, start, end int64) stage {
	st := stage{start: start, end: end, effective: mul(end-start, f.loops)}
	st.layers = st.effective
	if t := f.states; t != nil {
		st.states = t.count(t.recurrent, start, end)
		st.layers = t.count(t.attention, start, end)
	}
	if s.sliding != nil {
		st.layers, st.sliding = 0, 0
		for _, k := range f.kinds[min(start, int64(len(f.kinds))):min(end, int64(len(f.kinds)))] {
			switch k {
			case whole:
				st.layers++
			case slides:
				st.sliding++
			}
		}
	}
	if f.dsa.on {
		st.index = f.indexed(s, start, end, st.layers)
	}
	if s.sparse != nil {
		st.indexK, st.indexKV = 0, 0
		for i := start; i < min(end, int64(len(f.sparse.sparse))); i++ {
			switch {
			case !f.sparse.sparse[i]:
			case i < int64(len(f.sparse.keys)) && f.sparse.keys[i]:
				st.indexK++
			default:
				st.indexKV++
			}
		}
	}
	if s.dsv4 != nil {
		ratios := f.v4.ratios
		for _, ratio := range ratios[min(start, int64(len(ratios))):min(end, int64(len(ratios)))] {
			st.all++
			switch ratio {
			case 4:
				st.c4++
			case 128:
				st.c128++
			}
		}
	}
	return st
}

// indexed counts the layers with an indexer of their own among those that attend.
func (f *flags) indexed(s *setup, start, end, layers int64) int64 {
	if f.dsa.skips == nil || s.sliding != nil {
		return layers
	}
	n := int64(0)
	for i := start; i < min(end, int64(len(f.dsa.skips))); i++ {
		attends := f.states == nil || i < int64(len(f.states.attention)) && f.states.attention[i]
		if attends && !f.dsa.skips[i] {
			n++
		}
	}
	return n
}
