package headcount_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"headcount"
	"headcount/checkpoint"
	"headcount/engine"
	"headcount/internal/corpus"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// How the cases ask, and what they want of an answer.

// files resolves names of config files in the corpus; other names are the catalogue's.
type files struct{ corpus corpus.Corpus }

func (f files) Source(ctx context.Context, name string) (*checkpoint.Source, bool, error) {
	if _, ok := f.corpus[name]; !ok {
		return nil, false, nil
	}
	return f.corpus.Source(ctx, name)
}

// A decoder is a uniform model as a report states it.
type decoder struct {
	arch, kind                    string // LlamaForCausalLM and llama when empty
	layers, hidden, heads, kv, ff int    // kv 0: not in the config
	vocab                         int    // 32,000 when 0
	more                          string // further keys, with a comma before each
}

// config is the decoder's config.json.
func (d decoder) config() json.RawMessage {
	if d.arch == "" {
		d.arch, d.kind = "LlamaForCausalLM", "llama"
	}
	if d.vocab == 0 {
		d.vocab = 32_000
	}
	if d.kv > 0 {
		d.more += fmt.Sprintf(`, "num_key_value_heads": %d`, d.kv)
	}
	return fmt.Appendf(nil, `{"architectures": [%q], "model_type": %q, "torch_dtype": "bfloat16", "max_position_embeddings": 8192,
		"num_hidden_layers": %d, "hidden_size": %d, "num_attention_heads": %d, "intermediate_size": %d, "vocab_size": %d%s}`,
		d.arch, d.kind, d.layers, d.hidden, d.heads, d.ff, d.vocab, d.more)
}

// at asks for the decoder on a layout.
func (d decoder) at(l layout.Layout) headcount.Request {
	return headcount.Request{Config: d.config(), Layout: l}
}

// ask is about a catalogue model, or a config file of the corpus, on a layout.
func ask(name string, l layout.Layout) headcount.Request {
	return headcount.Request{Model: name, Layout: l}
}

// in gives each rank a pool of so many bytes for requests of so many tokens, 0 for the
// model's own length.
func in(pool, tokens int64, req headcount.Request) headcount.Request {
	req.KVCacheMemory, req.MaxModelLen = pool, tokens
	return req
}

// sglang puts the question to SGLang.
func sglang(req headcount.Request) headcount.Request {
	req.Engine = "sglang"
	return req
}

// with is req with options of its own.
func with(req headcount.Request, opt engine.Options) headcount.Request {
	req.Options = opt
	return req
}

var (
	tp = func(n int) layout.Layout { return layout.Layout{TP: n} }
	pp = func(n int) layout.Layout { return layout.Layout{PP: n} }
)

// answered holds that there is no refusal.
func answered(t *testing.T, _ headcount.Request, r *headcount.Report) {
	if r.Error != nil {
		t.Errorf("refused: %v", r.Error)
	}
}

// refused holds that the engine refuses, for the value of this field.
func refused(code problem.Code, field string, value any) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		e := r.Error
		if e == nil {
			t.Fatalf("answered with %d tokens, want a refusal of %s = %v", orZero(r.KVCache.Tokens), field, value)
		}
		if e.Code != code || e.Field != field || fmt.Sprint(e.Value) != fmt.Sprint(value) || e.RefusedBy == "" {
			t.Errorf("refused by %q: %s, %v; want %s of %s = %v", e.RefusedBy, e.Code, e, code, field, value)
		}
	}
}

// unusable holds that the config itself is refused, for this field.
func unusable(code problem.Code, field string) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		if e := r.Error; e == nil || e.Code != code || e.Field != field || e.RefusedBy != "" {
			t.Errorf("%v, want %s of %s", e, code, field)
		}
	}
}

// hinted holds that the remedy says so.
func hinted(text string) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		if r.Error == nil || !strings.Contains(r.Error.Hint, text) {
			t.Errorf("%v, want a hint with %q", r.Error, text)
		}
	}
}

// legalTP holds that exactly these tensor parallel sizes up to 64 are answered, and that a
// refusal's hint says the same.
func legalTP(want ...int) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		if r.Error != nil {
			hinted("legal tensor parallel sizes: "+strings.Trim(strings.ReplaceAll(fmt.Sprint(want), " ", ", "), "[]"))(t, req, r)
		}
		var got []int
		for n := 1; n <= 64; n++ {
			req.Layout = layout.Layout{TP: n}
			if r, err := headcount.Plan(context.Background(), req); err == nil && r.Error == nil {
				got = append(got, n)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("legal tensor parallel sizes %v, want %v", got, want)
		}
	}
}

// perToken is the bytes that a token takes on the first stage's rank, as long as it is kept.
func perToken(want int64) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if len(r.Ranks) == 0 || r.Ranks[0].BytesPerToken != want {
			t.Errorf("%+v: bytes a token on a rank, want %d", r.Ranks, want)
		}
	}
}

// perStage is the same for each pipeline stage.
func perStage(want ...int64) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		var got []int64
		for _, rank := range r.Ranks {
			got = append(got, rank.BytesPerToken)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v bytes a token on the stages, want %v", got, want)
		}
	}
}

// kvHeads is the KV heads of a rank, and how many ranks hold each.
func kvHeads(perRank, copies int) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if len(r.Ranks) == 0 || r.Ranks[0].KVHeads != perRank || r.Ranks[0].KVReplication != copies {
			t.Errorf("%+v: want %d KV heads a rank, each held by %d", r.Ranks, perRank, copies)
		}
		if copies > 1 {
			noted("replicated")(t, req, r)
		}
	}
}

// headDim is a head's width and the field that it comes from.
func headDim(want int, from string) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		if got := r.Model.HeadDim; got != want || r.Model.Provenance["head_dim"] != from {
			t.Errorf("head_dim %d from %q, want %d from %q", got, r.Model.Provenance["head_dim"], want, from)
		}
	}
}

// from is where a value of the model comes from.
func from(value, field string) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		if got := r.Model.Provenance[value]; got != field {
			t.Errorf("%s comes from %q, want %q", value, got, field)
		}
	}
}

// tokens is what the pool holds.
func tokens(want int64) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if got := orZero(r.KVCache.Tokens); got != want {
			t.Errorf("%d tokens, want %d", got, want)
		}
	}
}

// requests is how many of the maximum length the pool holds, to two digits.
func requests(want float64) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if got := orZero(r.KVCache.MaxConcurrency); math.Abs(got-want) > 0.005 {
			t.Errorf("%.4f requests, want %.2f", got, want)
		}
	}
}

// sized holds what a pool that is too small says: bytes of one request, and the longest
// request that fits.
func sized(needed, longest int64) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		if e := r.Error; e == nil || e.NeededBytes != needed || e.EstimatedMaxModelLen != longest {
			t.Errorf("%+v: want %d bytes needed, %d tokens at most", e, needed, longest)
		}
	}
}

// kinds is how many caches of each kind a rank of the first stage has.
func kinds(want map[model.Kind]int) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if got := countKinds(r); !maps.Equal(got, want) {
			t.Errorf("caches %v, want %v", got, want)
		}
	}
}

func countKinds(r *headcount.Report) map[model.Kind]int {
	n := map[model.Kind]int{}
	for _, run := range r.Ranks[0].Layers {
		n[run.Kind] += run.Layers
	}
	return n
}

// cell is the bytes that a token takes in one layer of a kind, before padding.
func cell(kind model.Kind, want int64) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		found := false
		for _, run := range r.Ranks[0].Layers {
			if run.Kind == kind && run.BlockSize > 0 {
				found = true
				if got := run.PageUnpadded / int64(run.BlockSize); got != want {
					t.Errorf("a %s layer takes %d bytes a token, want %d", kind, got, want)
				}
			}
		}
		if !found {
			t.Errorf("no %s layer in %v", kind, countKinds(r))
		}
	}
}

// state is the bytes of a recurrent layer's state.
func state(want int64) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		for _, run := range r.Ranks[0].Layers {
			if run.StateBytes != nil && *run.StateBytes != want {
				t.Errorf("a state of %d bytes, want %d", *run.StateBytes, want)
			}
		}
	}
}

// noted holds that a note has this in its ID.
func noted(id string) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		if !slices.ContainsFunc(r.Notes, func(n engine.Note) bool { return strings.Contains(n.ID, id) }) {
			t.Errorf("notes %v, want one of %s", r.Notes, id)
		}
	}
}

// logged holds that a line of the log has this in it.
func logged(text string) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		if !slices.ContainsFunc(r.Log, func(line string) bool { return strings.Contains(line, text) }) {
			t.Errorf("log %q, want a line with %q", r.Log, text)
		}
	}
}

// holds is a check in words of its own.
func holds(what string, ok func(r *headcount.Report) bool) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if !t.Failed() && !ok(r) {
			t.Errorf("not so: %s", what)
		}
	}
}

// asMuchAs holds that another question gets the same tokens.
func asMuchAs(other headcount.Request) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if a, b := orZero(answer(t, other).KVCache.Tokens), orZero(r.KVCache.Tokens); a != b || a == 0 {
			t.Errorf("%d tokens, the other question %d", b, a)
		}
	}
}

// longest is the length that "as long as fits" comes to.
func longest(want int64) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if got := r.Model.MaxModelLen; got != want {
			t.Errorf("max_model_len %d, want %d", got, want)
		}
	}
}

// window is the width of the window layers.
func window(want int) check {
	return func(t *testing.T, _ headcount.Request, r *headcount.Report) {
		for _, run := range r.Ranks[0].Layers {
			if run.Kind == model.Sliding && orZero(run.Window) != want {
				t.Errorf("a window of %d tokens, want %d", orZero(run.Window), want)
			}
		}
	}
}

// blockSize is tokens per block of the attention layers.
func blockSize(want int) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if got := r.KVCache.BlockSize; got != want || got%16 != 0 {
			t.Errorf("blocks of %d tokens, want %d", got, want)
		}
	}
}

// experts is the bytes of a rank's routed experts.
func experts(want int64) check {
	return func(t *testing.T, req headcount.Request, r *headcount.Report) {
		answered(t, req, r)
		if w := r.Ranks[0].Weights; w == nil || w.MoEExperts != want {
			t.Errorf("experts of a rank: %+v, want %d bytes", w, want)
		}
	}
}

// consistent holds that the log's tokens are its concurrency times the length.
func consistent(t *testing.T, req headcount.Request, r *headcount.Report) {
	answered(t, req, r)
	kv := &r.KVCache
	if got := int64(orZero(kv.MaxConcurrency) * float64(r.Model.MaxModelLen)); got != orZero(kv.Tokens) || got == 0 {
		t.Errorf("%d tokens, %.4f requests of %d", orZero(kv.Tokens), orZero(kv.MaxConcurrency), r.Model.MaxModelLen)
	}
}

// orZero is what p points to, the zero value for nil.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
