package verify

import (
	"encoding/json"
	"fmt"
	"strings"

	"headcount"
	"headcount/engine"
	"headcount/engine/vllm"
	"headcount/hw"
)

// options are the facts that a Request takes under their own names.
var options = func() map[string]bool {
	names := map[string]bool{"model": true, "gpu": true}
	for _, name := range []string{"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size",
		"enable_expert_parallel", "enable_dp_attention", "dtype", "kv_cache_dtype", "quantization", "block_size", "page_size", "max_model_len", "max_num_seqs",
		"max_num_batched_tokens", "gpu_memory_utilization", "mem_fraction_static", "kv_cache_memory_bytes", "num_gpu_blocks_override",
		"chunked_prefill_size", "max_running_requests", "max_total_tokens", "swa_full_tokens_ratio", "mamba_full_memory_ratio", "max_mamba_cache_size",
		"attention_backend", "disable_radix_cache", "disable_overlap_schedule", "disable_hybrid_swa_memory", "enable_multimodal", "disable_cuda_graph",
		"disable_hybrid_kv_cache_manager", "enable_prefix_caching", "enable_chunked_prefill", "async_scheduling", "enforce_eager",
		"mamba_cache_mode", "mamba_ssm_cache_dtype", "cp_kv_cache_interleave_size", "speculative_algorithm", "speculative_num_steps",
		"speculative_eagle_topk", "speculative_num_draft_tokens", "speculative_draft_model_path", "hf_overrides"} {
		names[name] = true
	}
	return names
}()

// request is the question that the observed start answers: what it said, under what given
// says, which wins. assumed names what neither says and a plan depends on.
func request(o *Observation, given headcount.Request) (req headcount.Request, assumed []string, err error) {
	fields := map[string]any{}
	for _, f := range o.Facts {
		if options[f.Name] {
			fields[f.Name] = f.Value
		}
	}
	if len(given.Config) > 0 || given.Model != "" {
		delete(fields, "model")
	}
	if name, _ := fields["gpu"].(string); name != "" {
		if gpu, err := hw.Lookup(name); err != nil || !gpu.EngineRules() {
			delete(fields, "gpu") // a device whose rules are not known is as good as one that is not named
			assumed = append(assumed, "the rules of an H100, as the engine's for "+name+" are not known (--gpu)")
		}
	}
	if method := o.Text("speculative_method"); method != "" {
		n, _ := o.Int("num_speculative_tokens")
		fields["speculative"] = engine.Speculative{Method: method, Tokens: int(n), Model: o.Text("speculative_model")}
	}
	over, err := json.Marshal(given)
	if err != nil {
		return req, nil, err
	}
	var wins map[string]json.RawMessage
	if err := json.Unmarshal(over, &wins); err != nil {
		return req, nil, err
	}
	for name, value := range wins {
		switch string(value) {
		case "0", "false", `""`, "null": // not given
		default:
			fields[name] = value
		}
	}
	assumed = append(assumed, fill(o, fields)...)
	data, err := json.Marshal(fields)
	if err != nil {
		return req, nil, err
	}
	req, err = headcount.ParseRequest(data)
	req.Draft = given.Draft
	return req, assumed, err
}

// fill names the engine's release, and says what is assumed for want of a word on it.
func fill(o *Observation, fields map[string]any) (assumed []string) {
	if _, given := fields["engine"]; !given && o.Engine != llamaName && o.Engine != trtllmName {
		fields["engine"] = o.Engine
		if o.Engine == vllmName {
			switch _, err := vllm.New(o.Version); {
			case o.Version == "":
				assumed = append(assumed, fmt.Sprintf("vLLM %s, as the log names no version (--engine vllm@VERSION)", vllm.Version))
			case err != nil:
				assumed = append(assumed, fmt.Sprintf("the rules of vLLM %s, as those of %s are not known (--engine vllm@VERSION)", vllm.Version, o.Version))
			default:
				fields["engine"] = "vllm@" + o.Version
			}
		}
	}
	if _, said := fields["tensor_parallel_size"]; !said {
		assumed = append(assumed, "tensor parallel size 1, as nothing names another (--tp)")
	}
	return assumed
}

// onStage reports whether a rank may be on a stage: "PP1 TP0" is on stage 1, one that names
// no stage on any.
func onStage(rank string, stage int) bool {
	for part := range strings.SplitSeq(rank, " ") {
		if n, ok := strings.CutPrefix(part, "PP"); ok {
			return n == fmt.Sprint(stage)
		}
	}
	return true
}
