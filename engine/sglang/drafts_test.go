package sglang

import (
	"strings"
	"testing"

	"headcount/engine"
	"headcount/hw"
)

// A block draft has rows of its own beside the target's. On fa4, which a Blackwell takes for
// it, they keep the compute dtype whatever the target's are in.
func TestBlockDraftRows(t *testing.T) {
	draft := parse(t, strings.Replace(llama, "{", `{"block_size": 8, `, 1))
	const token = 80 * 8 * (128 + 128) // elements: layers, KV heads, key and value
	for _, tt := range []struct {
		gpu, dtype, backend string
		want                float64
	}{
		{"h100", "auto", "", 2*token + 2*token},
		{"h100", "fp8_e4m3", "", token + token}, // fa3
		{"b200", "fp8_e4m3", "", token + 2*token},
		{"b200", "fp8_e4m3", "triton", token + token},
	} {
		gpu, err := hw.Lookup(tt.gpu)
		if err != nil {
			t.Fatal(err)
		}
		opts := engine.Options{SpeculativeAlgorithm: "DFLASH", Draft: draft, KVCacheDType: tt.dtype, AttentionBackend: tt.backend}
		res, refusal := Engine{}.Plan(engine.Job{Model: parse(t, llama), Options: &opts, GPU: gpu})
		if refusal != nil {
			t.Fatal(refusal)
		}
		if got := *res.KVCache.CellSize; got != tt.want {
			t.Errorf("%s, %s on %q: %v bytes a token, want %v", tt.gpu, tt.dtype, tt.backend, got, tt.want)
		}
	}
}

// DSPARK verifies the token that its draft starts from as well, and drafts with a Markov head.
func TestBlockTokens(t *testing.T) {
	with := func(fields string) string { return strings.Replace(llama, "{", "{"+fields, 1) }
	for _, tt := range []struct {
		algorithm, target, draft string
		given                    int
		want                     int64
		field                    string
	}{
		{"DFLASH", llama, with(`"block_size": 8, `), 0, 8, ""},
		{"DFLASH", llama, llama, 0, 16, ""},
		{"DFLASH", llama, with(`"dflash_config": {"block_size": 10}, `), 4, 4, ""},
		{"DSPARK", llama, with(`"block_size": 8, "markov_rank": 64, `), 0, 9, ""},
		{"DSPARK", llama, with(`"markov_rank": 64, `), 0, 8, ""},
		{"DSPARK", llama, with(`"block_size": 8, "markov_rank": 64, `), 8, 0, "speculative_num_draft_tokens"},
		{"DSPARK", llama, with(`"block_size": 8, `), 0, 0, "markov_rank"},
		{"DSPARK", with(`"dspark_block_size": 5, "dspark_markov_rank": 64, `), "", 0, 6, ""},
		{"DSPARK", llama, "", 0, 0, "speculative_draft_model_path"},
	} {
		opts := engine.Options{SpeculativeAlgorithm: tt.algorithm, SpeculativeDraftTokens: tt.given}
		if tt.draft != "" {
			opts.Draft = parse(t, tt.draft)
		}
		a := &answer{}
		refusal := a.plan(engine.Job{Model: parse(t, tt.target), Options: &opts})
		if (refusal == nil) != (tt.field == "") || refusal != nil && refusal.Field != tt.field {
			t.Errorf("%+v: %v, want a refusal of %q", tt, refusal, tt.field)
		}
		if refusal == nil && a.setup.draft.tokens != tt.want {
			t.Errorf("%s, %d given: %d tokens, want %d", tt.algorithm, tt.given, a.setup.draft.tokens, tt.want)
		}
	}
}
