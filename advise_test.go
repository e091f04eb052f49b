package headcount_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headcount"
	"headcount/engine"
	"headcount/internal/corpus"
	"headcount/layout"
)

func advise(t *testing.T, req headcount.Request) (*headcount.Report, []headcount.Advice) {
	t.Helper()
	var p headcount.Planner
	r, err := p.Plan(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return r, p.Advise(context.Background(), req, r)
}

// The pool's own flag gives the plan again; what moves the peak gives the pool that was said.
func TestAdviceIsTrue(t *testing.T) {
	req := headcount.Request{Model: "llama-3-70b", GPU: "h100", Layout: layout.Layout{TP: 8}}
	r, advice := advise(t, req)
	if len(advice) != 2 || advice[0].Flag != "--kv-cache-memory" || advice[1].String() != "--max-num-seqs=256" {
		t.Fatalf("%+v", advice)
	}
	req.KVCacheMemory, _ = strconv.ParseInt(advice[0].Value, 10, 64)
	again, err := headcount.Plan(context.Background(), req)
	if err != nil || *again.KVCache.Tokens != *r.KVCache.Tokens || again.Log[0] != r.Log[0] || again.PoolEstimated() {
		t.Errorf("%s: %v, %v", advice[0], again.Log, err)
	}
	// 768 rows less: in the pass 14 bytes a logit and a hidden state, down to the forward pass;
	// kept 4 bytes a logit and two masks.
	if !strings.Contains(advice[1].Why, "the sampler pass decides the peak, 1.9 GiB: frees 1.5 GiB") {
		t.Errorf("%+v", advice[1])
	}
}

// A pool that is given has the fraction that leaves as much: with that alone the plan has it
// again, to what four digits hold.
func TestFractionOfAPool(t *testing.T) {
	for _, of := range []struct{ engine, model string }{{"vllm", "llama-3-70b"}, {"sglang", "llama-3-70b"}, {"sglang", "qwen3-next"}} { // the last one's states take their part first
		engineName := of.engine
		req := headcount.Request{Model: of.model, GPU: "h100", Engine: engineName, Layout: layout.Layout{TP: 8}, Options: engine.Options{KVCacheMemory: 40 << 30}}
		given, advice := advise(t, req)
		if len(advice) == 0 {
			t.Fatalf("%s: nothing", engineName)
		}
		if given.PoolEstimated() {
			t.Errorf("%s of %s: a pool that is given is no estimate", engineName, of.model)
		}
		f, err := strconv.ParseFloat(advice[0].Value, 64)
		if err != nil {
			t.Fatal(err)
		}
		req.KVCacheMemory = 0
		if engineName == "vllm" {
			req.GPUMemoryUtilization = f
		} else {
			req.MemFractionStatic = f
		}
		r, err := headcount.Plan(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		if off := *r.KVCache.AvailableBytes + r.StateBytes() - 40<<30; off < -16<<20 || off > 16<<20 || !r.PoolEstimated() {
			t.Errorf("%s %s: %d bytes off", engineName, advice[0], off)
		}
	}
}

// What does not fit says how much is missing, and then flags that each make it fit, in order.
func TestAdviceForWhatDoesNotFit(t *testing.T) {
	for _, tt := range []struct {
		req   headcount.Request
		first string
		flags []string
	}{
		{headcount.Request{Model: "llama-3-70b", GPU: "h100"}, "62.0 GiB a rank are missing", []string{"--tensor-parallel-size=2", "--pipeline-parallel-size=2"}},
		{headcount.Request{Model: "qwen3-32b", GPU: "h100"}, "2.0 GiB a rank are missing: a request of 40,960 tokens takes 10.0 GiB, and 8.0 GiB are left",
			[]string{"--tensor-parallel-size=2", "--pipeline-parallel-size=2", "--max-model-len=", "--kv-cache-dtype=fp8"}},
	} {
		r, advice := advise(t, tt.req)
		if r.Error == nil || len(advice) != 1+len(tt.flags) || !strings.HasPrefix(advice[0].Why, tt.first) {
			t.Fatalf("%s: %+v", tt.req.Model, advice)
		}
		for i, want := range tt.flags {
			if got := advice[1+i].String(); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", tt.req.Model, got, want)
			}
		}
		if i := len(tt.flags) - 2; strings.HasPrefix(tt.flags[i], "--max-model-len") {
			req := tt.req
			req.MaxModelLen, _ = strconv.ParseInt(advice[1+i].Value, 10, 64)
			if r, err := headcount.Plan(context.Background(), req); err != nil || r.Error != nil {
				t.Errorf("%s: %v %v", advice[1+i], err, r.Error)
			}
		}
	}
}

// Less free memory than the engine is to take is refused, with the fraction that it would do for.
func TestFreeMemory(t *testing.T) {
	req := headcount.Request{Model: "llama-3.1-8b", GPU: "h100", Options: engine.Options{FreeMemory: 60 << 30}}
	r, advice := advise(t, req)
	if r.Error == nil || r.Error.Field != "free_memory_bytes" || len(advice) != 1 || !strings.Contains(advice[0].Why, "12.9 more than are") { // 0.92 × 79.19 − 60
		t.Fatalf("%v %+v", r.Error, advice)
	}
	value, _ := strings.CutPrefix(r.Error.Hint, "--gpu-memory-utilization=")
	req.GPUMemoryUtilization, _ = strconv.ParseFloat(value, 64)
	if r, _ = advise(t, req); r.Error != nil {
		t.Errorf("%s: %v", value, r.Error)
	}
	for _, bad := range []int64{-1} {
		req.FreeMemory = bad
		if _, err := headcount.Plan(context.Background(), req); err == nil {
			t.Errorf("%d is taken", bad)
		}
	}
}

// The pool of Llama-3-70B on eight H100, whose public figure is 50.7 GiB a rank, is in the
// interval; so is what it holds.
func TestPoolOfLlama70B(t *testing.T) {
	r, _ := advise(t, headcount.Request{Model: "llama-3-70b", GPU: "h100", Layout: layout.Layout{TP: 8}})
	const figure = 50.7 * (1 << 30)
	m := r.Memory
	if kv := m.KVBytes; !(float64(kv.P10) < figure && figure < float64(kv.P90)) || kv.P90-kv.P10 > 4<<30 {
		t.Errorf("%+v", kv)
	}
	if n := m.Tokens; n == nil || !(n.P10 < n.P50 && n.P50 < n.P90) || n.P50 != float64(*r.KVCache.Tokens) {
		t.Errorf("tokens: %+v", n)
	}
	if n := m.MaxConcurrency; n == nil || !(n.P10 < n.P50 && n.P50 < n.P90) {
		t.Errorf("concurrency: %+v", n)
	}
	for _, term := range m.Terms {
		if term.Basis == "" || term.Source == "" {
			t.Errorf("%s says not how it is known", term.Name)
		}
	}
}

// A third of the corpus' configs has a bill that is sound, on each engine and in pipelines;
// what is advised says something.
func TestBillsOfTheCorpus(t *testing.T) {
	configs := corpus.Load(t)
	planner := headcount.Planner{Resolver: configs}
	bills, advised := 0, 0
	for n, name := range slices.Sorted(maps.Keys(configs)) {
		if n%3 != 0 {
			continue // the rest would take seconds
		}
		for i, req := range []headcount.Request{
			{GPU: "h100"}, {GPU: "l4", Layout: layout.Layout{TP: 2, PP: 2}}, {GPU: "b200", Engine: "sglang", Layout: layout.Layout{TP: 4}},
			{GPU: "a100", Engine: "vllm@0.11.0", Options: engine.Options{EnforceEager: true, FreeMemory: 70 << 30}},
		} {
			req.Model = name
			r, err := planner.Plan(context.Background(), req)
			if err != nil || r.Memory == nil {
				continue
			}
			bills++
			for _, m := range append(r.Stages, r.Memory) {
				for _, term := range m.Terms {
					if term.P10 < 0 || term.P10 > term.P50 || term.P50 > term.P90 || term.Basis == "" {
						t.Errorf("%s, %d: %s: %+v", name, i, term.Name, term)
					}
				}
				if kv := m.KVBytes; kv != nil && (kv.P10 < 0 || kv.P10 > kv.P50 || kv.P50 > kv.P90 || kv.P90 > m.TotalBytes) {
					t.Errorf("%s, %d: pool %+v of %d", name, i, kv, m.TotalBytes)
				}
			}
			for _, a := range planner.Advise(context.Background(), req, r) {
				if a.Why == "" || strings.Contains(a.Why, "NaN") || strings.Contains(a.Why, "Inf") || strings.Contains(a.Why, "frees -") {
					t.Errorf("%s, %d: %+v", name, i, a)
				}
				advised++
			}
		}
	}
	if bills == 0 || advised == 0 {
		t.Errorf("%d bills, %d pieces of advice", bills, advised)
	}
}
