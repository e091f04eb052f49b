package headcount

import (
	"encoding/json"
	"strings"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/hw"
	"headcount/internal/strict"
	"headcount/layout"
	"headcount/problem"
)

// A Request is one question: a model, an engine, a layout and the engine's flags. The zero
// value of a field means the engine's default, also when the field is given as 0 or "".
// A Request is the JSON of one line of `plan --jobs` and of POST /v1/plan.
type Request struct {
	ID     json.RawMessage `json:"id,omitempty"`     // returned as it is
	Model  string          `json:"model,omitempty"`  // catalogue name, or what the Planner's Resolver takes
	Config json.RawMessage `json:"config,omitempty"` // a config.json, in place of Model
	Engine string          `json:"engine,omitempty"` // "vllm" or "sglang", with "@version" for another release; "" is vllm
	GPU    string          `json:"gpu,omitempty"`    // an accelerator's id or short name

	Accelerator *hw.Accelerator `json:"accelerator,omitempty"` // one described in place of GPU

	layout.Layout
	engine.Options

	HFOverrides   json.RawMessage `json:"hf_overrides,omitempty"`    // keys to set in the config
	HFQuantConfig json.RawMessage `json:"hf_quant_config,omitempty"` // hf_quant_config.json
	Params        json.RawMessage `json:"params,omitempty"`          // params.json
	DraftConfig   json.RawMessage `json:"draft_config,omitempty"`    // config.json of the draft model

	AssumeArchitecture string `json:"assume_architecture,omitempty"` // go on as if the config named it
}

// MaxRequestBytes bounds one request: a config of the largest size taken, and flags.
const MaxRequestBytes = 4 << 20

// ParseRequest reads one Request. The error is a [*problem.Error] that names the field.
func ParseRequest(data []byte) (Request, error) {
	var req Request
	err := strict.Decode(data, &req, "request", MaxRequestBytes)
	return req, err
}

// Bounds of flags, far above any server.
const (
	maxCount   = 1 << 40 // tokens, blocks, sequences
	maxGiB     = 1 << 20
	maxLengths = 64
)

const leaveOut = "leave it out for the engine's default"

// check reports flags that are out of any range.
func (req *Request) check() error {
	if err := req.Layout.Check(); err != nil {
		return err
	}
	if req.DPAttention && !strings.HasPrefix(req.Engine, "sglang") {
		return problem.New(problem.BadValue, "enable_dp_attention", true, "SGLang's layout, not vLLM's").WithHint("--engine sglang; vLLM's data parallel ranks are replicas")
	}
	if err := req.checkFractions(); err != nil {
		return err
	}
	if err := req.checkCounts(); err != nil {
		return err
	}
	if req.MaxModelLen < -1 {
		return problem.New(problem.BadValue, "max_model_len", req.MaxModelLen, "neither a length nor -1 for as long as fits").WithHint(leaveOut)
	}
	if req.KVCacheMemory < 0 {
		return problem.New(problem.BadValue, "kv_cache_memory_bytes", req.KVCacheMemory, "negative").WithHint("a size in bytes; leave it out for the device's own memory")
	}
	if req.FreeMemory < 0 {
		return problem.New(problem.BadValue, "free_memory_bytes", req.FreeMemory, "negative").WithHint("a size in bytes; leave it out for a device that is empty")
	}
	if len(req.ConcurrencyAt) > maxLengths {
		return problem.New(problem.BadValue, "concurrency_at", len(req.ConcurrencyAt), "more than %d lengths", maxLengths).WithHint("ask again for the rest")
	}
	for _, n := range req.ConcurrencyAt {
		if n < 1 {
			return problem.New(problem.BadValue, "concurrency_at", n, "not a length").WithHint("lengths of 1 token or more")
		}
	}
	return nil
}

// checkFractions holds shares and readings to what a device can have.
func (req *Request) checkFractions() error {
	for _, f := range [...]struct {
		name    string
		x, most float64
	}{
		{"gpu_memory_utilization", req.GPUMemoryUtilization, 1}, {"mem_fraction_static", req.MemFractionStatic, 1},
		{"memory_begin_gib", req.MemoryBeginGiB, maxGiB}, {"memory_end_gib", req.MemoryEndGiB, maxGiB},
	} {
		if !(f.x >= 0 && f.x <= f.most) {
			return problem.New(problem.BadValue, f.name, f.x, "not between 0 and %g", f.most).WithHint(leaveOut)
		}
	}
	return nil
}

// checkCounts holds counts to what a server can have.
func (req *Request) checkCounts() error {
	for _, f := range [...]struct {
		name     string
		n, least int64
	}{
		{"block_size", int64(req.BlockSize), 0}, {"page_size", int64(req.PageSize), 0},
		{"max_num_seqs", int64(req.MaxNumSeqs), 0}, {"max_num_batched_tokens", int64(req.MaxNumBatched), 0},
		{"num_gpu_blocks_override", req.NumGPUBlocksOverride, 0}, {"cp_kv_cache_interleave_size", int64(req.CPInterleave), 0},
		{"chunked_prefill_size", int64(req.ChunkedPrefillSize), -1}, // -1: prefills are not cut
		{"max_running_requests", int64(req.MaxRunningRequests), 0}, {"max_total_tokens", req.MaxTotalTokens, 0},
		{"max_mamba_cache_size", int64(req.MaxMambaCacheSize), 0}, {"speculative_num_steps", int64(req.SpeculativeSteps), 0},
		{"speculative_eagle_topk", int64(req.SpeculativeTopK), 0}, {"speculative_num_draft_tokens", int64(req.SpeculativeDraftTokens), 0},
	} {
		if f.n < f.least || f.n > maxCount {
			return problem.New(problem.BadValue, f.name, f.n, "not between %d and %d", f.least, int64(maxCount)).WithHint(leaveOut)
		}
	}
	return nil
}

// pooled reports whether the request says how large the pool is.
func (req *Request) pooled() bool {
	return req.KVCacheMemory > 0 || req.MemoryEndGiB > 0 || req.NumGPUBlocksOverride > 0
}

// Device is the accelerator asked for, nil for none.
func (req *Request) Device() (*hw.Accelerator, error) {
	if req.Accelerator != nil {
		return req.Accelerator, req.Accelerator.Check()
	}
	if req.GPU == "" {
		return nil, nil
	}
	return hw.Lookup(req.GPU)
}

// override lays what the request brings over a copy of the checkpoint: the keys of
// hf_overrides, nested objects merged, and hf_quant_config.json in place of the
// checkpoint's own.
func (req *Request) override(src *checkpoint.Source) (*checkpoint.Source, error) {
	out := *src
	for _, side := range []struct {
		name string
		data []byte
		lay  func(*checkpoint.Object)
	}{
		{"hf_overrides", req.HFOverrides, func(o *checkpoint.Object) { out.Config = src.Config.Merge(o) }},
		{"hf_quant_config", req.HFQuantConfig, func(o *checkpoint.Object) { out.HFQuant = o }},
	} {
		if len(side.data) == 0 {
			continue
		}
		object, _, err := checkpoint.Parse(side.data)
		if err != nil {
			return nil, problem.New(problem.Unreadable, side.name, nil, "%v", err)
		}
		side.lay(object)
	}
	return &out, nil
}
