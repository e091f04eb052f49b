package verify

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// gib is a size that was printed in GiB with two decimals.
func gib(x float64) Size { return Size{int64(x*(1<<30) + 0.5), 1<<30/200 + 1} }

func mib(x float64) Size { return Size{int64(x*(1<<20) + 0.5), 1<<20/200 + 1} }

// TestWordings reads a line or a few of each engine and wants the facts in them.
func TestWordings(t *testing.T) {
	for _, tt := range []struct {
		name, log string
		engine    string
		facts     map[string]any // "name" or "name rank"
	}{
		{"vllm 0.32, workers", `(APIServer pid=1) INFO 11-29 22:13:21 [api_utils.py:286] non-default args: {'model_tag': 'a/b', 'model': 'a/b', 'tensor_parallel_size': 2, 'served_model_name': ['x, y'], 'gpu_memory_utilization': 0.9, 'enable_prefix_caching': False, 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 2}, 'hf_overrides': {'rope_scaling': {'factor': 4.0}}}
(Worker_TP1 pid=2) INFO 11-29 22:13:28 [gpu_worker.py:773] Available KV cache memory: 50.7 GiB
(Worker_TP0 pid=3) INFO 11-29 22:13:28 [gpu_worker.py:773] Available KV cache memory: 50.69 GiB
(Worker_TP0 pid=3) INFO 11-29 22:13:28 [gpu_model_runner.py:5089] Model loading took 16.4 GiB memory and 9.123456 seconds
(EngineCore pid=4) INFO 11-29 22:13:28 [kv_cache_utils.py:2327] GPU KV cache size: 1,337,216 tokens, Maximum concurrency for 8,192 tokens per request: 163.23x`,
			vllmName, map[string]any{"model": "a/b", "tensor_parallel_size": int64(2), "gpu_memory_utilization": 0.9, "enable_prefix_caching": false,
				"speculative_method": "mtp", "num_speculative_tokens": int64(2), "available_bytes TP1": gib(50.7), "available_bytes TP0": gib(50.69),
				"weights_bytes TP0": gib(16.4), "tokens": int64(1337216), "max_concurrency": 163.23, "max_model_len": int64(8192)}},
		{"vllm 0.8, a line a rank", `INFO 04-01 10:00:00 [api_server.py:981] vLLM API server version 0.8.2
INFO 04-01 10:00:00 [api_server.py:982] args: Namespace(host=None, port=8000, model='meta-llama/Llama-3.1-8B-Instruct', tensor_parallel_size=2, kv_cache_dtype='auto', enable_prefix_caching=None)
INFO 04-01 10:00:01 [core.py:53] Initializing a V1 LLM engine (v0.8.2) with config: model='meta-llama/Llama-3.1-8B-Instruct', speculative_config=None, dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=2, quantization=fp8, device_config=cuda
(VllmWorker rank=1 pid=20) INFO 04-01 10:01:00 [kv_cache_utils.py:578] GPU KV cache size: 148,096 tokens
(VllmWorker rank=0 pid=19) INFO 04-01 10:01:00 [kv_cache_utils.py:578] GPU KV cache size: 148,112 tokens
(VllmWorker rank=0 pid=19) INFO 04-01 10:01:00 [kv_cache_utils.py:581] Maximum concurrency for 131,072 tokens per request: 1.13x`,
			vllmName, map[string]any{"model": "meta-llama/Llama-3.1-8B-Instruct", "dtype": "bfloat16", "tokens TP1": int64(148096), "tokens TP0": int64(148112), "max_concurrency TP0": 1.13, "kv_cache_dtype": "auto"}},
		{"vllm V0, Ray", `INFO 10-01 10:00:00 llm_engine.py:237] Initializing an LLM engine (v0.6.3) with config: model='m', speculative_config=None, dtype=torch.float16, max_seq_len=4096, tensor_parallel_size=2, kv_cache_dtype=auto
INFO 10-01 10:00:05 model_runner.py:1067] Loading model weights took 6.2 GB
(RayWorkerWrapper pid=77, ip=10.0.0.2) INFO 10-01 10:00:05 model_runner.py:1067] Loading model weights took 6.3 GB
INFO 10-01 10:00:09 worker.py:268] the current vLLM instance can use total_gpu_memory (79.19GiB) x gpu_memory_utilization (0.90) = 71.27GiB
INFO 10-01 10:00:09 worker.py:268] model weights take 14.99GiB; non_torch_memory takes 0.13GiB; PyTorch activation peak memory takes 1.23GiB; the rest of the memory reserved for KV Cache is 54.92GiB.
INFO 10-01 10:00:10 gpu_executor.py:122] # GPU blocks: 27793, # CPU blocks: 2048
INFO 10-01 10:00:10 gpu_executor.py:126] Maximum concurrency for 4096 tokens per request: 108.57x`,
			vllmName, map[string]any{"num_blocks": int64(27793), "cpu_blocks": int64(2048), "max_concurrency": 108.57, "weights_bytes": gib(14.99), "weights_bytes worker 10.0.0.2 77": gib(6.3),
				"total_bytes": gib(79.19), "available_bytes": gib(54.92), "activation_bytes": gib(1.23)}},
		{"vllm, the profile of 0.11 on", `INFO x [gpu_worker.py:298] Memory profiling takes 17.55 seconds. Total non KV cache memory: 13.57GiB; torch peak memory increase: 0.77GiB; non-torch forward increase memory: 0.25GiB; weights memory: 12.56GiB.
INFO x [gpu_worker.py:1045] Free memory on device (78.6/79.19 GiB) on startup. Desired GPU memory utilization is (0.95, 75.23 GiB). Replace gpu_memory_utilization config with ` + "`--kv-cache-memory=65088610304` (60.62 GiB) to fit into requested memory, or `--kv-cache-memory=68088610304`" + ` (63.41 GiB) to fully utilize gpu memory. Current kv cache memory in use is 61.66 GiB.
INFO x [gpu_model_runner.py:4000] Graph capturing finished in 3 secs, took 0.89 GiB
WARNING x [fused_moe.py:1] Using default MoE config. Config file not found at E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json`,
			vllmName, map[string]any{"non_kv_bytes": gib(13.57), "activation_bytes": gib(0.77), "weights_bytes": gib(12.56), "total_bytes": gib(79.19), "suggested_pool": int64(68088610304),
				"available_bytes": gib(61.66), "graph_bytes": gib(0.89), "gpu": "NVIDIA H100 80GB HBM3"}},
		{"vllm, data parallel", `(EngineCore_DP0 pid=1) INFO x [core.py:1] Initializing a V1 LLM engine (v0.11.0) with config: model='m', data_parallel_size=2
(EngineCore_DP0 pid=1) INFO x [k.py:1] GPU KV cache size: 200 tokens
(EngineCore_DP1 pid=2) INFO x [core.py:1] Initializing a V1 LLM engine (v0.11.0) with config: model='m', data_parallel_size=2
(EngineCore_DP1 pid=2) INFO x [k.py:1] GPU KV cache size: 100 tokens`,
			vllmName, map[string]any{"tokens DP0": int64(200), "tokens DP1": int64(100), "data_parallel_size": int64(2)}},
		{"collector's JSON, colours, CRI", `{"log":"\u001b[1;36m(EngineCore pid=1)\u001b[0;0m INFO x [k.py:1] GPU KV cache size: 1,000 tokens, Maximum concurrency for 10 tokens per request: 100.00x\n","stream":"stderr"}
2026-01-01T00:00:00.000000000Z stderr F (Worker_PP1_TP0 pid=2) INFO x [gpu_worker.py:1] Available KV cache memory: 2.0 GiB`,
			vllmName, map[string]any{"tokens": int64(1000), "max_concurrency": 100.0, "available_bytes PP1 TP0": gib(2)}},
		{"sglang", `[2025-12-01 10:00:00] server_args=ServerArgs(model_path='deepseek-ai/DeepSeek-V3', tp_size=8, dp_size=8, enable_dp_attention=True, mem_fraction_static=0.81, kv_cache_dtype='auto', context_length=None, page_size=64)
[2025-12-01 10:00:05 DP0 TP3 EP3] Load weight begin. avail mem=78.66 GB
[2025-12-01 10:01:00 DP0 TP3 EP3] Load weight end. type=DeepseekV3ForCausalLM, dtype=torch.bfloat16, avail mem=41.37 GB, mem usage=37.29 GB.
[2025-12-01 10:01:02 DP0 TP3 EP3] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 131072, KV size: 8.58 GB
[2025-12-01 10:01:02 DP0 TP3 EP3] Memory pool end. avail mem=31.00 GB
[2025-12-01 10:01:20 DP0 TP3 EP3] Capture cuda graph end. Time elapsed: 3.29 s. mem usage=0.93 GB. avail mem=30.07 GB.
[2025-12-01 10:01:21 DP0 TP3 EP3] max_total_num_tokens=131072, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2049, context_len=163840, available_gpu_mem=30.07 GB`,
			sglangName, map[string]any{"model": "deepseek-ai/DeepSeek-V3", "tensor_parallel_size": int64(8), "enable_dp_attention": true, "mem_fraction_static": 0.81,
				"memory_begin DP0 TP3": gib(78.66), "memory_end DP0 TP3": gib(41.37), "weights_bytes DP0 TP3": gib(37.29), "pool_tokens DP0 TP3": int64(131072),
				"kv_bytes DP0 TP3": gib(8.58), "max_total_num_tokens DP0 TP3": int64(131072), "context_len DP0 TP3": int64(163840), "graph_bytes DP0 TP3": gib(0.93)}},
		{"sglang, windows", `[2025-12-01 10:00:00 TP0] Use sliding window memory pool. full_layer_tokens=117840, swa_layer_tokens=94272
[2025-12-01 10:00:00 TP0] SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 94272, K size: 4.50 GB, V size: 4.50 GB
[2025-12-01 10:00:00 TP0] Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 117840, K size: 0.56 GB, V size: 0.56 GB
[2025-12-01 10:00:00 TP0] Mamba Cache is allocated. max_mamba_cache_size: 154, conv_state size: 0.43GB, ssm_state size: 21.80GB`,
			sglangName, map[string]any{"full_tokens TP0": int64(117840), "swa_tokens TP0": int64(94272), "swa_pool_tokens TP0": int64(94272), "swa_k_bytes TP0": gib(4.5),
				"pool_tokens TP0": int64(117840), "k_bytes TP0": gib(0.56), "mamba_slots TP0": int64(154), "ssm_state_bytes TP0": gib(21.8)}},
		{"llama.cpp", `build: 5636 (abc) with cc
llama_model_loader: loaded meta data with 40 key-value pairs and 800 tensors
print_info: n_layer          = 62
print_info: n_embd_k_gqa     = 2048
llama_context: n_ctx         = 32768
llama_kv_cache_unified_iswa: creating non-SWA KV cache, size = 32768 cells
llama_kv_cache_unified: size = 1360.00 MiB ( 32768 cells,  10 layers,  2 seqs), K (q8_0):  680.00 MiB, V (q8_0):  680.00 MiB
llama_kv_cache_unified: size =  442.00 MiB (  2048 cells,  52 layers,  2 seqs), K (f16):  221.00 MiB, V (f16):  221.00 MiB
llama_memory_recurrent: size = 72.98 MiB (1 cells, 24 layers, 1 seqs), R (f32): 0.98 MiB, S (f32): 72.00 MiB`,
			llamaName, map[string]any{"n_layer": int64(62), "n_embd_k_gqa": int64(2048), "n_ctx": int64(32768), "cells": int64(32768), "layers": int64(10), "k_type": "q8_0", "k_bytes": mib(680),
				"swa_cells": int64(2048), "swa_layers": int64(52), "swa_v_bytes": mib(221), "state_cells": int64(1), "state_s_bytes": mib(72)}},
		{"llama.cpp, older", `llama_model_loader: loaded meta data with 40 key-value pairs
llm_load_print_meta: n_layer          = 32
llama_new_context_with_model: n_ctx      = 4096
llama_new_context_with_model: KV self size  = 1536.00 MiB, K (f16):  768.00 MiB, V (f16):  768.00 MiB`,
			llamaName, map[string]any{"n_layer": int64(32), "n_ctx": int64(4096), "k_type": "f16", "k_bytes": mib(768), "v_bytes": mib(768)}},
		{"tensorrt-llm", `[TensorRT-LLM][INFO] TensorRT-LLM version: 0.12.0
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 63.62 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 4607
[TensorRT-LLM][INFO] Number of tokens per block: 64.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 62.99 GiB for max tokens in paged KV cache (294848).`,
			trtllmName, map[string]any{"total_bytes": gib(79.1), "free_bytes": gib(63.62), "num_blocks": int64(4607), "tokens_per_block": int64(64), "tokens": int64(294848), "kv_bytes": gib(62.99)}},
	} {
		p, err := Read(strings.NewReader(tt.log), "log")
		if err != nil || len(p.Starts()) != 1 {
			t.Errorf("%s: %d starts, %v", tt.name, len(p.Starts()), err)
			continue
		}
		o := p.Starts()[0]
		if o.Engine != tt.engine {
			t.Errorf("%s: engine %q", tt.name, o.Engine)
		}
		have := map[string]any{}
		for _, f := range o.Facts {
			have[strings.TrimSpace(f.Name+" "+f.Rank)] = f.Value
			if f.Line < 1 || f.Line > int64(strings.Count(tt.log, "\n"))+1 {
				t.Errorf("%s: %s on line %d", tt.name, f.Name, f.Line)
			}
		}
		for name, want := range tt.facts {
			got := have[name]
			if s, ok := got.(Size); ok { // the last bytes of a rounding are not the point
				if w, ok := want.(Size); ok && s.Bytes-w.Bytes <= 1 && w.Bytes-s.Bytes <= 1 && w.Slack-s.Slack <= 1 {
					continue
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s = %v, want %v (have %v)", tt.name, name, got, want, have)
			}
		}
	}
}

// TestStarts splits a log where a process says again what it says once a start.
func TestStarts(t *testing.T) {
	start := func(n int) string {
		return fmt.Sprintf("(APIServer pid=%d) INFO x vLLM API server version 0.11.0\n(EngineCore pid=%d) INFO x [core.py:1] Initializing a V1 LLM engine (v0.11.0) with config: model='m%d'\n(EngineCore pid=%d) INFO x GPU KV cache size: %d tokens\n", n, n, n, n, 100*n)
	}
	p, _ := Read(strings.NewReader(start(1)+"ValueError: x\n"+start(2)+start(3)+"llama_model_loader: loaded meta data with 1 key-value pairs\n"), "log")
	var got []string
	for _, o := range p.Starts() {
		n, _ := o.Int("tokens")
		got = append(got, fmt.Sprint(o.Engine, " ", o.Text("model"), " ", n))
	}
	want := []string{"vllm m1 100", "vllm m2 200", "vllm m3 300", "llama.cpp  0"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("starts %q, want %q", got, want)
	}
	if last := p.Starts()[2]; last.Facts[0].Line != 9 {
		t.Errorf("the third start's first fact is on line %d, want 9", last.Facts[0].Line)
	}
}

// TestAnchors wants every wording to be found, alone and in the middle of a line.
func TestAnchors(t *testing.T) {
	for i := range wordings().words {
		w := &wordings().words[i]
		if strings.ContainsAny(w.anchor, "\n\x00") || w.anchor == "" {
			t.Errorf("%q can be in no line", w.anchor)
		}
		found := false
		wordings().each([]byte("GPU KV GPU KV c"+w.anchor+"x\n"), func(hit *wording, at int) { found = found || hit == w })
		if !found {
			t.Errorf("%q is not found", w.anchor)
		}
	}
}

func TestPairs(t *testing.T) {
	var got []string
	for name, value := range pairs(`{'a': 'x, y}', "b": [1, 2], 'c': Config(d=1, e={}), 'f': True}, 'not': 1`) {
		got = append(got, name+"="+value)
	}
	want := []string{"a='x, y}'", "b=[1, 2]", "c=Config(d=1, e={})", "f=True"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("pairs are %q, want %q", got, want)
	}
}
