package attn

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"headcount/problem"
)

// Layers of models whose numbers are widely known.
var (
	llama70B   = Geometry{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128}  // Llama-3-70B, 80 layers
	llama8B    = Geometry{QueryHeads: 32, KVHeads: 8, KeyDim: 128, ValueDim: 128}  // Llama-3-8B
	qwen2_7B   = Geometry{QueryHeads: 28, KVHeads: 4, KeyDim: 128, ValueDim: 128}  // Qwen2-7B
	mha70B     = Geometry{QueryHeads: 64, KVHeads: 64, KeyDim: 128, ValueDim: 128} // Llama-3-70B, were it MHA
	mqa70B     = Geometry{QueryHeads: 64, KVHeads: 1, KeyDim: 128, ValueDim: 128}  // and were it MQA
	unequal    = Geometry{QueryHeads: 64, KVHeads: 4, KeyDim: 192, ValueDim: 128}  // keys wider than values
	deepSeekV3 = Geometry{Arch: MLA, QueryHeads: 128, KVHeads: 1, KeyDim: 512 + 64, LatentDim: 512}
)

// code is the code of a *problem.Error, "" for nil.
func code(t *testing.T, err error) problem.Code {
	t.Helper()
	if err == nil {
		return ""
	}
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		t.Fatalf("%v is a %T, want a *problem.Error", err, err)
	}
	return p.Code
}

func TestRank(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    Geometry
		tp   int
		want [2]int // query heads, KV heads
		code problem.Code
	}{
		{"whole", llama70B, 1, [2]int{64, 8}, ""},
		{"sharded", llama70B, 8, [2]int{64 / 8, 1}, ""},
		{"replicated", llama70B, 16, [2]int{64 / 16, 1}, ""},
		{"latent", deepSeekV3, 16, [2]int{128 / 16, 1}, ""},
		{"queries do not divide", deepSeekV3, 7, [2]int{}, problem.NotDivisible},
		{"KV heads do not divide", Geometry{QueryHeads: 48, KVHeads: 8, KeyDim: 64, ValueDim: 64}, 12, [2]int{}, problem.NotDivisible},
		{"not a layer", Geometry{QueryHeads: 8, KVHeads: 3, KeyDim: 64, ValueDim: 64}, 1, [2]int{}, problem.NotDivisible},
		{"no ranks", llama70B, 0, [2]int{}, problem.BadValue},
	} {
		got, err := tt.g.Rank(tt.tp)
		if c := code(t, err); c != tt.code || [2]int{got.QueryHeads, got.KVHeads} != tt.want {
			t.Errorf("%s: Rank(%d) = %+v, %v, want heads %v", tt.name, tt.tp, got, err, tt.want)
		}
		if err == nil && got.Validate() != nil {
			t.Errorf("%s: Rank(%d) is not a layer: %v", tt.name, tt.tp, got.Validate())
		}
	}
}

func TestElemsPerToken(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    Geometry
		tp   int
		want int64 // elements
		code problem.Code
	}{
		{"gqa whole", llama8B, 1, 8 * (128 + 128), ""},
		{"gqa sharded", llama8B, 8, 1 * (128 + 128), ""},
		{"gqa replicated", llama8B, 16, 1 * (128 + 128), ""}, // two ranks hold each KV head
		{"gqa uneven", llama8B, 3, 0, problem.NotDivisible},
		{"gqa neither divides", llama8B, 12, 0, problem.NotDivisible},
		{"mha", mha70B, 8, 8 * (128 + 128), ""},
		{"mqa", mqa70B, 8, 1 * (128 + 128), ""},
		{"unequal widths", unequal, 2, 2 * (192 + 128), ""},
		{"mla whole on every rank", deepSeekV3, 8, 512 + 64, ""},
		{"mla at a size that divides nothing", deepSeekV3, 7, 512 + 64, ""},
		{"no ranks", llama8B, 0, 0, problem.BadValue},
		{"negative ranks", llama8B, -8, 0, problem.BadValue},
		{"zero geometry", Geometry{}, 1, 0, problem.BadValue},
		{"too wide", Geometry{QueryHeads: 8, KVHeads: 8, KeyDim: math.MaxInt, ValueDim: 1}, 1, 0, problem.BadValue},
		{"too many", Geometry{QueryHeads: 8, KVHeads: math.MaxInt, KeyDim: 128, ValueDim: 128}, 1, 0, problem.BadValue},
	} {
		got, err := tt.g.ElemsPerToken(tt.tp)
		if got != tt.want || code(t, err) != tt.code {
			t.Errorf("%s: ElemsPerToken(%d) = %d, %v, want %d, %q", tt.name, tt.tp, got, err, tt.want, tt.code)
		}
	}
}

func TestHeadsPerRank(t *testing.T) {
	for _, tt := range []struct {
		name               string
		g                  Geometry
		tp                 int
		query, kv, copies  int
		queryCode, kvCodes problem.Code
	}{
		{"one rank", llama70B, 1, 64, 8, 1, "", ""},
		{"sharded", llama70B, 8, 8, 1, 1, "", ""},
		{"replicated", llama70B, 16, 4, 1, 2, "", ""},
		{"query heads refuse", qwen2_7B, 8, 0, 1, 2, problem.NotDivisible, ""},
		{"KV heads refuse", qwen2_7B, 7, 4, 0, 0, "", problem.NotDivisible},
		{"both refuse", llama70B, 3, 0, 0, 0, problem.NotDivisible, problem.NotDivisible},
		{"MQA is whole everywhere", mqa70B, 8, 8, 1, 8, "", ""},
		{"a latent is whole everywhere", deepSeekV3, 16, 8, 1, 16, "", ""},
		{"a latent hinders no size, query heads do", deepSeekV3, 3, 0, 1, 3, problem.NotDivisible, ""},
		{"zero geometry", Geometry{}, 1, 0, 0, 0, problem.BadValue, problem.BadValue},
		{"no ranks", llama70B, 0, 0, 0, 0, problem.BadValue, problem.BadValue},
	} {
		query, queryErr := tt.g.QueryHeadsPerRank(tt.tp)
		if query != tt.query || code(t, queryErr) != tt.queryCode {
			t.Errorf("%s: QueryHeadsPerRank(%d) = %d, %v, want %d, %q", tt.name, tt.tp, query, queryErr, tt.query, tt.queryCode)
		}
		kv, kvErr := tt.g.KVHeadsPerRank(tt.tp)
		if kv != tt.kv || code(t, kvErr) != tt.kvCodes {
			t.Errorf("%s: KVHeadsPerRank(%d) = %d, %v, want %d, %q", tt.name, tt.tp, kv, kvErr, tt.kv, tt.kvCodes)
		}
		copies, err := tt.g.Replication(tt.tp)
		if copies != tt.copies || code(t, err) != tt.kvCodes {
			t.Errorf("%s: Replication(%d) = %d, %v, want %d, %q", tt.name, tt.tp, copies, err, tt.copies, tt.kvCodes)
		}
	}
}

// Every rank together hold each KV head Replication times.
func TestReplicationAddsUp(t *testing.T) {
	for _, g := range []Geometry{llama70B, llama8B, qwen2_7B, mha70B, mqa70B, deepSeekV3} {
		for _, tp := range g.LegalTP(256) {
			heads, _ := g.KVHeadsPerRank(tp)
			copies, _ := g.Replication(tp)
			if heads*tp != g.KVHeads*copies {
				t.Errorf("%s: %d ranks × %d heads is not %d heads × %d copies", g.Variant(), tp, heads, g.KVHeads, copies)
			}
		}
	}
}

func TestRefusal(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		err                  error
		field, message, hint string
		value                any
	}{
		{"query heads", second(qwen2_7B.QueryHeadsPerRank(8)), "num_attention_heads",
			"num_attention_heads = 28: not divisible by tensor parallel size 8", "legal tensor parallel sizes: 1, 2, 4", 28},
		{"KV heads", second(llama8B.KVHeadsPerRank(3)), "num_key_value_heads",
			"num_key_value_heads = 8: not divisible by tensor parallel size 3", "legal tensor parallel sizes: 1, 2, 4, 8, 16", 8},
		{"a long list ends", second(Geometry{QueryHeads: 5040, KVHeads: 5040}.QueryHeadsPerRank(1000)), "num_attention_heads",
			"num_attention_heads = 5040: not divisible by tensor parallel size 1000", "legal tensor parallel sizes: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14", 5040},
		{"no ranks", second(llama8B.KVHeadsPerRank(-1)), "tensor_parallel_size", "tensor_parallel_size = -1: not a positive number", "", -1},
	} {
		p, ok := errors.AsType[*problem.Error](tt.err)
		if !ok {
			t.Errorf("%s: %v is not a *problem.Error", tt.name, tt.err)
			continue
		}
		if p.Field != tt.field || p.Value != tt.value || p.Message != tt.message || p.Hint != tt.hint {
			t.Errorf("%s: %+v, want field %q value %v message %q hint %q", tt.name, *p, tt.field, tt.value, tt.message, tt.hint)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestLegalTP(t *testing.T) {
	for _, tt := range []struct {
		name  string
		g     Geometry
		limit int
		want  []int
	}{
		{"llama", llama70B, 64, []int{1, 2, 4, 8, 16, 32, 64}},
		{"limit", llama70B, 8, []int{1, 2, 4, 8}},
		{"28 query heads over 4", qwen2_7B, 64, []int{1, 2, 4, 28}},
		{"a latent", deepSeekV3, 16, []int{1, 2, 4, 8, 16}},
		{"no more ranks than heads", Geometry{QueryHeads: 6, KVHeads: 6}, math.MaxInt, []int{1, 2, 3, 6}},
		{"zero geometry", Geometry{}, 8, nil},
		{"limit of nothing", llama70B, 0, nil},
	} {
		if got := tt.g.LegalTP(tt.limit); !slices.Equal(got, tt.want) {
			t.Errorf("%s: LegalTP(%d) = %v, want %v", tt.name, tt.limit, got, tt.want)
		}
	}
	huge := Geometry{QueryHeads: math.MaxInt, KVHeads: 1, KeyDim: 1, ValueDim: 1}
	if got := huge.LegalTP(math.MaxInt); len(got) == 0 || got[len(got)-1] > maxTP {
		t.Errorf("LegalTP of an absurd layer ends at %v", got)
	}
}

func TestValidate(t *testing.T) {
	with := func(g Geometry, f func(*Geometry)) Geometry { f(&g); return g }
	for _, tt := range []struct {
		name  string
		g     Geometry
		field string // "" for valid
	}{
		{"mha", mha70B, ""},
		{"gqa", llama70B, ""},
		{"mqa", mqa70B, ""},
		{"mla", deepSeekV3, ""},
		{"unequal widths", unequal, ""},
		{"zero", Geometry{}, "num_attention_heads"},
		{"no KV heads", with(llama8B, func(g *Geometry) { g.KVHeads = 0 }), "num_key_value_heads"},
		{"no key", with(llama8B, func(g *Geometry) { g.KeyDim = -1 }), "head_dim"},
		{"no value", with(llama8B, func(g *Geometry) { g.ValueDim = 0 }), "v_head_dim"},
		{"a group that is not whole", with(llama8B, func(g *Geometry) { g.KVHeads = 5 }), "num_attention_heads"},
		{"more KV heads than query heads", with(llama8B, func(g *Geometry) { g.KVHeads = 64 }), "num_attention_heads"},
		{"a latent in MHA", with(llama8B, func(g *Geometry) { g.LatentDim = 64 }), "kv_lora_rank"},
		{"no such architecture", with(llama8B, func(g *Geometry) { g.Arch = 2 }), "attention_arch"},
		{"two latents", with(deepSeekV3, func(g *Geometry) { g.KVHeads = 2 }), "num_key_value_heads"},
		{"a value beside the latent", with(deepSeekV3, func(g *Geometry) { g.ValueDim = 128 }), "v_head_dim"},
		{"no latent", with(deepSeekV3, func(g *Geometry) { g.LatentDim = 0 }), "kv_lora_rank"},
		{"a latent wider than the key", with(deepSeekV3, func(g *Geometry) { g.LatentDim = 577 }), "kv_lora_rank"},
	} {
		err := tt.g.Validate()
		p, _ := errors.AsType[*problem.Error](err)
		switch {
		case tt.field == "" && err != nil, tt.field != "" && (p == nil || p.Field != tt.field):
			t.Errorf("%s: Validate() = %v, want field %q", tt.name, err, tt.field)
		case p != nil && !strings.HasPrefix(p.Message, tt.field+" = "):
			t.Errorf("%s: message %q does not begin with the field", tt.name, p.Message)
		}
	}
}

func TestVariant(t *testing.T) {
	for _, tt := range []struct {
		g     Geometry
		want  string
		group int
	}{
		{mha70B, "MHA", 1},
		{llama70B, "GQA-8", 8},
		{qwen2_7B, "GQA-4", 7},
		{mqa70B, "MQA", 64},
		{deepSeekV3, "MLA", 128},
		{Geometry{QueryHeads: 1, KVHeads: 1}, "MHA", 1},
		{Geometry{}, "MHA", 0},
	} {
		if got, group := tt.g.Variant(), tt.g.GroupSize(); got != tt.want || group != tt.group {
			t.Errorf("%+v: Variant() = %q, GroupSize() = %d, want %q, %d", tt.g, got, group, tt.want, tt.group)
		}
	}
	if MHA.String() != "MHA" || MLA.String() != "MLA" {
		t.Errorf("architectures print as %v and %v", MHA, MLA)
	}
}

// A plan asks these for every layer; none may reach for the heap.
func TestAllocationFree(t *testing.T) {
	for name, f := range map[string]func(){
		"ElemsPerToken": func() { _, _ = llama70B.ElemsPerToken(16) },
		"BytesPerToken": func() { _, _ = deepSeekV3.BytesPerToken(8, 2) },
		"QueryHeads":    func() { _, _ = llama70B.QueryHeadsPerRank(8) },
		"Replication":   func() { _, _ = llama70B.Replication(16) },
		"Intensity":     func() { _, _ = deepSeekV3.Intensity(8, 2) },
		"Validate":      func() { _ = llama70B.Validate() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// Whatever the numbers, no method panics, and what succeeds is consistent.
func FuzzGeometry(f *testing.F) {
	for _, g := range []Geometry{llama70B, mqa70B, deepSeekV3, {}, {QueryHeads: math.MinInt, KVHeads: -1}} {
		f.Add(uint8(g.Arch), g.QueryHeads, g.KVHeads, g.KeyDim, g.ValueDim, g.LatentDim, 8)
	}
	f.Fuzz(func(t *testing.T, arch uint8, query, kv, key, value, latent, tp int) {
		g := Geometry{Arch(arch), query, kv, key, value, latent}
		valid := g.Validate() == nil
		_, _ = g.Variant(), g.GroupSize()
		heads, err := g.KVHeadsPerRank(tp)
		if err == nil && heads <= 0 {
			t.Errorf("%+v: KVHeadsPerRank(%d) = %d", g, tp, heads)
		}
		if n, err := g.ElemsPerToken(tp); err == nil && valid && n <= 0 {
			t.Errorf("%+v: ElemsPerToken(%d) = %d", g, tp, n)
		}
		if i, err := g.Intensity(tp, 2); err == nil && valid && !(i > 0) {
			t.Errorf("%+v: Intensity(%d) = %v", g, tp, i)
		}
		if n, err := g.Replication(tp); err == nil && n < 1 {
			t.Errorf("%+v: Replication(%d) = %d", g, tp, n)
		}
		g.LegalTP(64)
	})
}

func BenchmarkElemsPerToken(b *testing.B) {
	for b.Loop() {
		_, _ = llama70B.ElemsPerToken(8)
	}
}
