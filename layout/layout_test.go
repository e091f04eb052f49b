package layout

import "testing"

func TestHeads(t *testing.T) {
	for _, tt := range []struct{ n, tp, rank, first, count int }{
		{8, 1, 0, 0, 8},
		{8, 4, 3, 6, 2},
		{8, 16, 0, 0, 1}, {8, 16, 1, 0, 1}, {8, 16, 15, 7, 1}, // two ranks hold each
		{1, 64, 63, 0, 1},                                  // a latent is whole on every rank
		{0, 4, 1, 0, 0}, {8, 4, 4, 0, 0}, {8, 4, -1, 0, 0}, // no heads, no such rank
	} {
		if first, count := Heads(tt.n, tt.tp, tt.rank); first != tt.first || count != tt.count {
			t.Errorf("Heads(%d, %d, %d) = %d, %d, want %d, %d", tt.n, tt.tp, tt.rank, first, count, tt.first, tt.count)
		}
	}
}

func TestString(t *testing.T) {
	for l, want := range map[Layout]string{
		{}:                     "TP 1",
		{TP: 8, PP: 2, DCP: 2}: "TP 8 · PP 2 · DCP 2",
		{TP: 8, DP: 8, DPAttention: true, EP: true}: "TP 8 · attention DP 8 · EP",
	} {
		if got := l.String(); got != want {
			t.Errorf("%+v prints %q, want %q", l, got, want)
		}
	}
	if n := (Layout{TP: 8, DP: 4, DPAttention: true}).AttentionTP(); n != 2 {
		t.Errorf("8 ranks over 4 attention-DP ranks split heads over %d, want 2", n)
	}
}
