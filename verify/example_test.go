package verify_test

import (
	"context"
	"fmt"
	"strings"

	"headcount"
	"headcount/verify"
)

// Two lines of a log are enough: what ran, and what it came to. Of the pool as it is printed,
// 40 GiB, the tokens are those of a plan.
func Example() {
	const log = `INFO 11-29 22:13:22 [core.py:133] Initializing a V1 LLM engine (v0.33.0) with config: model='meta-llama/Meta-Llama-3-70B', max_seq_len=8192, tensor_parallel_size=8
(Worker_TP0 pid=1) INFO 11-29 22:13:28 [gpu_worker.py:773] Available KV cache memory: 40.0 GiB
(EngineCore pid=2) INFO 11-29 22:13:28 [kv_cache_utils.py:2327] GPU KV cache size: 1,048,576 tokens, Maximum concurrency for 8,192 tokens per request: 128.00x`
	starts, err := verify.Read(strings.NewReader(log), "log")
	if err != nil {
		panic(err)
	}
	v := verify.Verifier{Planner: &headcount.Planner{}}
	r, err := v.Verify(context.Background(), starts.Starts()[0], headcount.Request{})
	if err != nil {
		panic(err)
	}
	for _, c := range r.Checks {
		fmt.Println(c.Name, c.Predicted, c.Observed, c.Agrees)
	}
	// Output:
	// tokens 1048576 1048576 true
	// max_concurrency 128 128 true
}
