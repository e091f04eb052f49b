package headcount_test

import (
	"context"
	"testing"

	"headcount"
	"headcount/layout"
)

// A pinned model is the one that was resolved, whatever else a request changes; another
// model is another.
func TestPin(t *testing.T) {
	ctx := context.Background()
	var p headcount.Planner
	config := []byte(`{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}`)
	pinned, err := p.Pin(ctx, headcount.Request{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		req  headcount.Request
		want int64 // bytes a token and rank
	}{
		{headcount.Request{Config: config}, 32 * 8 * 2 * 128 * 2},
		{headcount.Request{Config: config, Layout: layout.Layout{TP: 8}}, 32 * 2 * 128 * 2},
		{headcount.Request{Config: config, HFOverrides: []byte(`{"num_key_value_heads": 1}`)}, 32 * 2 * 128 * 2},
		{headcount.Request{Model: "llama-3-70b"}, 80 * 8 * 2 * 128 * 2},
	} {
		r, err := pinned.Plan(ctx, tt.req)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Ranks[0].BytesPerToken; got != tt.want {
			t.Errorf("%d bytes a token, want %d", got, tt.want)
		}
	}
	if _, err := p.Pin(ctx, headcount.Request{Model: "no such model"}); err == nil {
		t.Error("an unknown model is pinned")
	}
}
