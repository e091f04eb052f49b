package weights

import (
	"testing"

	"headcount/layout"
	"headcount/model"
)

// A kernel that takes no fewer than 64 heads holds as many, on one rank as on eight.
func TestAxisLeast(t *testing.T) {
	for _, tt := range []struct {
		size, tp int
		want     int64
	}{{8, 1, 64}, {64, 1, 64}, {128, 1, 128}, {64, 8, 64}, {1024, 8, 128}} {
		one := tally{tp: int64(tt.tp), build: Build{Layout: layout.Layout{TP: tt.tp}}}
		if got := one.axis(&model.Axis{Size: tt.size, Split: model.Sharded, Least: 64}); got != tt.want {
			t.Errorf("%d over %d ranks: %d, want %d", tt.size, tt.tp, got, tt.want)
		}
	}
}
