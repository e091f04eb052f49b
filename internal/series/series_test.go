package series

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"headcount"
	"headcount/engine"
	"headcount/layout"
	"headcount/roofline"
	"headcount/vram"
)

func draw(t *testing.T, q Query) *Figures {
	t.Helper()
	f, err := Draw(context.Background(), &headcount.Planner{}, q)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func at(model, gpu string, tp int) headcount.Request {
	return headcount.Request{Model: model, GPU: gpu, Layout: layout.Layout{TP: tp}}
}

// 8 KV heads over 16 ranks: neighbours hold the same head, and each rank's 4 query heads
// read it.
func TestStripsReplicated(t *testing.T) {
	s := draw(t, Query{Requests: []headcount.Request{at("llama-3-70b", "", 16)}}).Strips
	if len(s.Ranks) != 16 || s.QueryHeads != 64 || s.KVHeads != 8 {
		t.Fatalf("%d ranks of %d query and %d KV heads", len(s.Ranks), s.QueryHeads, s.KVHeads)
	}
	for i, r := range s.Ranks {
		want := Head{Head: i / 2, Copy: i%2 + 1, Copies: 2, Readers: Span{4 * i, 4}}
		if len(r.KVHeads) != 1 || r.KVHeads[0] != want {
			t.Errorf("rank %d holds %+v, want %+v", i, r.KVHeads, want)
		}
		if r.BytesPerToken != 80*2*128*2 {
			t.Errorf("rank %d: %d bytes a token, want 80 layers of one head", i, r.BytesPerToken)
		}
	}
}

// 8 KV heads over 4 ranks: two each, and 8 query heads read one.
func TestStripsSharded(t *testing.T) {
	s := draw(t, Query{Requests: []headcount.Request{at("llama-3-70b", "", 4)}}).Strips
	want := []Head{{2, 1, 1, Span{16, 8}}, {3, 1, 1, Span{24, 8}}}
	if got := s.Ranks[1].KVHeads; !slices.Equal(got, want) {
		t.Errorf("rank 1 holds %+v, want %+v", got, want)
	}
}

// A latent is whole on every rank.
func TestStripsLatent(t *testing.T) {
	s := draw(t, Query{Requests: []headcount.Request{at("deepseek-v3", "", 8)}}).Strips
	for i, r := range s.Ranks {
		if want := (Head{0, i + 1, 8, Span{16 * i, 16}}); s.Architecture != "MLA" || len(r.KVHeads) != 1 || r.KVHeads[0] != want {
			t.Errorf("rank %d holds %+v, want %+v", i, r.KVHeads, want)
		}
		if r.BytesPerToken != 61*(512+64)*2 {
			t.Errorf("rank %d: %d bytes a token, want 61 latents", i, r.BytesPerToken)
		}
	}
}

// Attention-DP ranks split no head, and each replica has its own requests.
func TestStripsAttentionDP(t *testing.T) {
	req := at("deepseek-v3", "", 8)
	req.Engine, req.Layout.DP, req.Layout.DPAttention = "sglang", 8, true
	for i, r := range draw(t, Query{Requests: []headcount.Request{req}}).Strips.Ranks {
		if r.Replica != i || r.QueryHeads != (Span{0, 128}) || r.KVHeads[0].Copies != 1 {
			t.Errorf("rank %d: %+v", i, r)
		}
	}
}

// Ranks that share the tokens of a latent hold it once among them: 16 ranks in groups of 8
// hold two copies.
func TestStripsShareTokens(t *testing.T) {
	req := at("deepseek-v3", "", 16)
	req.Layout.DCP = 8
	f := draw(t, Query{Requests: []headcount.Request{req}})
	for i, r := range f.Strips.Ranks {
		if h := r.KVHeads[0]; h.Copies != f.Report.Ranks[0].KVReplication || h.Copies != 16/8 || h.Copy != i/8+1 {
			t.Errorf("rank %d: %+v, the report says %d copies", i, h, f.Report.Ranks[0].KVReplication)
		}
	}
}

// With 40 GiB a rank, GQA-8 gains tokens up to TP 8, MLA none, and passes it between 4 and
// 8: at 8, 40 GiB / 40,960 B against 40 GiB / 70,272 B.
func TestCapacity(t *testing.T) {
	q := Query{Requests: []headcount.Request{at("llama-3-70b", "", 8), at("deepseek-v3", "", 8)}}
	for i := range q.Requests {
		q.Requests[i].KVCacheMemory = 40 << 30
		q.Requests[i].MaxModelLen = 8192
	}
	c := draw(t, q).Capacity
	if n := c.Lines[0].SaturatesAt; n == nil || *n != 8 {
		t.Errorf("GQA-8 saturates at %v, want 8", n)
	}
	if n := c.Lines[1].SaturatesAt; n == nil || *n != 1 {
		t.Errorf("MLA saturates at %v, want 1", n)
	}
	if n := c.Lines[0].Points[3].Tokens; n == nil || *n != (40<<30)/40960 {
		t.Errorf("GQA-8 at TP 8 holds %v tokens, want %d", n, (40<<30)/40960)
	}
	if len(c.Crossovers) != 1 || c.Crossovers[0].A != 0 || c.Crossovers[0].B != 1 || c.Crossovers[0].TP != 8 {
		t.Errorf("crossovers %+v, want GQA-8 past MLA at 8", c.Crossovers)
	}
}

// Layouts of one model that differ in TP alone are one line; another engine is another.
func TestLines(t *testing.T) {
	a, b, c := at("llama-3-70b", "", 2), at("llama-3-70b", "", 4), at("llama-3-70b", "", 4)
	c.Engine = "sglang"
	lines := draw(t, Query{Requests: []headcount.Request{a, b, c}}).Capacity.Lines
	if len(lines) != 2 || !strings.HasSuffix(lines[0].Label, "vLLM") || !strings.HasSuffix(lines[1].Label, "SGLang") {
		t.Errorf("lines %+v", lines)
	}
}

// The parts of a bar fill the device.
func TestMemory(t *testing.T) {
	for _, name := range []string{"vllm", "sglang"} {
		req := at("llama-3-70b", "h100", 8)
		req.Engine = name
		f := draw(t, Query{Requests: []headcount.Request{req}})
		bar, sum := f.Memory.Bars[0], int64(0)
		for _, p := range bar.Parts {
			sum += p.Bytes
		}
		if sum != bar.TotalBytes || !bar.Estimated {
			t.Errorf("%s: parts sum to %d of %d", name, sum, bar.TotalBytes)
		}
	}
}

// Requests of a length are the report's own for that length.
func TestRequests(t *testing.T) {
	req := at("llama-3-70b", "", 8)
	req.KVCacheMemory = 40 << 30
	f := draw(t, Query{Requests: []headcount.Request{req}})
	want := []engine.Concurrency{{Tokens: 1024, Requests: 1024}, {Tokens: 2048, Requests: 512}, {Tokens: 4096, Requests: 256}, {Tokens: 8192, Requests: 128}}
	if got := f.Requests.Lines[0].Points; !slices.Equal(got, want) { // 1,048,576 tokens
		t.Errorf("%+v, want %+v", got, want)
	}
}

// SGLang answers for its own length first; the line begins with the shortest.
func TestRequestsInOrder(t *testing.T) {
	req := at("llama-3-70b", "h100", 8)
	req.Engine = "sglang"
	points := draw(t, Query{Requests: []headcount.Request{req}}).Requests.Lines[0].Points
	for i := 1; i < len(points); i++ {
		if points[i-1].Tokens >= points[i].Tokens {
			t.Errorf("%+v", points)
		}
	}
}

// Where the weights are not known, a pool that is given is, and the rest is one part.
func TestMemoryWithoutWeights(t *testing.T) {
	pool := int64(10 << 30)
	r := &headcount.Report{Memory: &vram.Memory{TotalBytes: 80 << 30, Terms: []vram.Term{{Name: "graphs", Band: vram.Band{P50: 1 << 30}}}}, Roofline: &headcount.Roofline{}}
	if m := memoryOf([]*headcount.Report{r}); m != nil {
		t.Errorf("neither weights nor pool are known: %+v", m)
	}
	r.KVCache.AvailableBytes = &pool
	parts := memoryOf([]*headcount.Report{r}).Bars[0].Parts
	if last := parts[len(parts)-1]; last.Name != "not_known" || last.Bytes != (80-1-10)<<30 || last.Text != "69 GiB" {
		t.Errorf("%+v", parts)
	}
}

func TestLayers(t *testing.T) {
	l := draw(t, Query{Requests: []headcount.Request{at("gemma-3-27b", "", 1)}}).Layers
	if len(l.Row) != 21 || l.Row[1].First != 5 || l.Row[1].Kind != "full_attention" || l.Row[20].Layers != 2 {
		t.Errorf("row %+v, want five windows, one full, ten times, and two windows", l.Row)
	}
	want := "16 × (128 + 128) × 2 B (bfloat16) a token, the last 1,024 tokens"
	if l.Kinds[0].Layers != 52 || l.Kinds[0].Caches != want || l.Kinds[1].Layers != 10 {
		t.Errorf("kinds %+v", l.Kinds)
	}
}

// GQA-8 stands at 2·8/2 = 8 FLOP/byte up to TP 8 and at half of it on 16 ranks, each time
// on the slope of 3.35 TB/s.
func TestRoofline(t *testing.T) {
	f := draw(t, Query{Requests: []headcount.Request{at("llama-3-70b", "h100", 8)}, TP: []int{1, 2, 4, 8, 16}}).Roofline
	if *f.Ridge != 989.4e12/3.35e12 || len(f.Points) != 2 {
		t.Fatalf("ridge %v, points %+v", *f.Ridge, f.Points)
	}
	for i, want := range []RooflinePoint{
		{Label: "full attention, TP 1 to 8", Intensity: 8, Rate: 8 * 3.35e12},
		{Label: "full attention, TP 16", Intensity: 4, Rate: 4 * 3.35e12},
	} {
		if got := f.Points[i]; got.Label != want.Label || got.Intensity != want.Intensity || got.Rate != want.Rate || got.Measured {
			t.Errorf("point %+v, want %+v", got, want)
		}
	}
}

// A ceiling without both limits draws nothing, and neither does work without a place on a
// logarithmic axis.
func TestRooflineUnknown(t *testing.T) {
	f := NewRoofline("")
	f.Under("half", roofline.Roof{Peak: 1})
	f.Measure("none", 0, 1)
	f.Predict(RooflinePoint{Intensity: 1})
	if len(f.Ceilings) != 0 || len(f.Points) != 0 || f.Ridge != nil {
		t.Errorf("%+v", f)
	}
	f.Under("whole", roofline.Roof{Peak: 100, Bandwidth: 10})
	f.Measure("work", 5, 20)
	if n := len(f.Ceilings[0].Line); n != 3 || f.Ceilings[0].Line[1] != (XY{10, 100}) || !f.Points[0].Measured {
		t.Errorf("%+v", f)
	}
}

// Whatever is not known is null, and a query out of bounds is refused.
func TestNothingKnown(t *testing.T) {
	f := draw(t, Query{Requests: []headcount.Request{at("llama-3-70b", "", 3)}})
	if f.Report.Error == nil || f.Memory != nil || f.Roofline != nil || f.Requests != nil {
		t.Errorf("TP 3: %+v", f)
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
	for _, q := range []Query{
		{}, {Requests: make([]headcount.Request, 9)}, {Requests: make([]headcount.Request, 1), Lead: 1},
		{Requests: make([]headcount.Request, 1), TP: []int{0}}, {Requests: make([]headcount.Request, 1), TP: make([]int, 99)},
	} {
		if _, err := Draw(context.Background(), &headcount.Planner{}, q); err == nil {
			t.Errorf("taken: %+v", q)
		}
	}
}

// A request that is refused has no line of requests; those after it keep their number, and
// with it their colour.
func TestRequestsKeepTheirLine(t *testing.T) {
	f := draw(t, Query{Requests: []headcount.Request{
		at("llama-3-70b", "h100", 16),
		at("gpt-oss-120b", "h100", 16), // 8 KV heads, which it does not replicate
		at("qwen3-32b", "h100", 16),
	}})
	var lines []int
	for _, line := range f.Requests.Lines {
		lines = append(lines, line.Line)
	}
	if !slices.Equal(lines, []int{0, 2}) {
		t.Errorf("lines %v, want 0 and 2", lines)
	}
}
