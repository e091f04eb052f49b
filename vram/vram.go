// Package vram is what a serving engine leaves of one device's memory for the KV cache.
// Terms with a closed form are given by it; those that no config determines are
// distributions over public start-up logs. The result is always an interval.
package vram

import "math"

// A Band is an estimate in bytes: the tenth, fiftieth and ninetieth percentile.
type Band struct {
	P10 int64 `json:"p10"`
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
}

// most bounds a term, far above any device, so that sums of a few stay exact or absurd but
// never wrap.
const most = 1 << 60

// size is x bytes, between 0 and most. Formulas are in float64, which holds every size of a
// device exactly.
func size(x float64) int64 { return int64(min(max(x, 0), most)) }

// exact is a band of no width.
func exact(x float64) Band { n := size(x); return Band{n, n, n} }

// PerCent is half the width of a band in per cent of its middle.
func (b Band) PerCent() float64 {
	if b.P50 <= 0 {
		return 0
	}
	return 50 * float64(b.P90-b.P10) / float64(b.P50)
}

// A Range is a Band of something that is no size.
type Range struct {
	P10 float64 `json:"p10"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
}

// Of is the range of what grows with the pool b, by middle at its middle.
func (b Band) Of(middle float64) *Range {
	if b.P50 <= 0 {
		return &Range{}
	}
	return &Range{middle * float64(b.P10) / float64(b.P50), middle, middle * float64(b.P90) / float64(b.P50)}
}

// A Basis says how a term is known.
type Basis string

const (
	Exact     Basis = "exact"     // the engine computes it from the config and the flags, as here
	Modelled  Basis = "modelled"  // a closed form that the engine's own pass, or its logs, agree with
	Empirical Basis = "empirical" // a distribution over public start-up logs
)

// A Term is one use of the memory of one device.
type Term struct {
	Name string `json:"name"`
	Band
	Basis  Basis  `json:"basis"`
	Class  string `json:"class,omitempty"` // of start-up logs, where it is empirical
	Source string `json:"source"`          // the formula, or what the distribution is over
}

// A Peak is one step of the profiling pass that could decide the activation term: the
// widest of them does.
type Peak struct {
	Name  string `json:"name"` // sampler, forward, encoder
	At    string `json:"at,omitempty"`
	Bytes int64  `json:"bytes"`
}

// A Memory is one device's bill, in bytes. KVBytes is null when the weights are not known.
type Memory struct {
	Stage        int     `json:"stage"`       // the pipeline stage whose ranks these are
	TotalBytes   int64   `json:"total_bytes"` // as the runtime reports it
	FreeBytes    int64   `json:"free_bytes,omitempty"`
	Fraction     float64 `json:"fraction"`      // of it that the engine takes
	TakenBytes   int64   `json:"taken_bytes"`   // what that is
	WeightsBytes *int64  `json:"weights_bytes"` // parameters and buffers
	Terms        []Term  `json:"terms"`
	Peaks        []Peak  `json:"peaks"`
	KVBytes      *Band   `json:"kv_bytes"`

	Tokens         *Range `json:"tokens,omitempty"` // that an estimated pool holds
	MaxConcurrency *Range `json:"max_concurrency,omitempty"`

	middle float64 // see Left
}

// Left is what is left for the cache by the middle of the bands, bytes, negative where the
// terms exceed what the engine takes; 0 where the weights are not known.
func (m *Memory) Left() float64 { return m.middle }

// Shortage is by how many bytes weights and terms exceed what the engine takes, by the
// middle of the bands; 0 where a pool is left or the weights are not known.
func (m *Memory) Shortage() float64 { return max(-m.middle, 0) }

// Loaded is what an engine says that loading took, as far as a closed form tells: weights
// and what they leave; ok is false where the weights are not known.
func (m *Memory) Loaded() (n int64, ok bool) {
	if m.WeightsBytes == nil {
		return 0, false
	}
	n = *m.WeightsBytes
	if t := m.Term("loading"); t != nil && t.Basis == Modelled {
		n += t.P50
	}
	return n, true
}

// Term is the term of a name, nil for none.
func (m *Memory) Term(name string) *Term {
	for i := range m.Terms {
		if m.Terms[i].Name == name {
			return &m.Terms[i]
		}
	}
	return nil
}

// Widest is the step of the profiling pass that decides, the zero Peak where none is run.
func (m *Memory) Widest() (widest Peak) {
	for _, p := range m.Peaks {
		if p.Bytes >= widest.Bytes {
			widest = p
		}
	}
	return widest
}

// settle takes the terms from what the engine takes. Terms err independently, so their half
// widths add as squares do.
func (m *Memory) settle() {
	if m.WeightsBytes == nil {
		return
	}
	m.middle = float64(m.TakenBytes) - float64(*m.WeightsBytes)
	var low, high float64
	for i := range m.Terms {
		t := &m.Terms[i]
		m.middle -= float64(t.P50)
		down, up := float64(t.P90-t.P50), float64(t.P50-t.P10)
		low, high = low+down*down, high+up*up
	}
	m.KVBytes = &Band{size(m.middle - math.Sqrt(low)), size(m.middle), size(m.middle + math.Sqrt(high))}
}

// A Load is what one rank runs, as far as memory depends on it.
type Load struct {
	Version Version // of the engine
	Device  Device

	Stage        int
	Fraction     float64 // the engine's
	FreeBytes    int64   // free on the device before the engine starts; 0: all
	WeightsBytes *int64  // parameters and buffers of the rank; nil: not known
	Loading      int64   // what loading leaves beyond them, bytes

	TP, PP        int
	Layers        int // of the stage
	Hidden, Vocab int
	ElemBytes     int64 // of the model's dtype
	BatchedTokens int64 // max_num_batched_tokens
	Sequences     int64 // max_num_seqs

	Forward   int64  // widest point of the forward pass, bytes
	ForwardAt string // where that is
	Workspace int64  // shared by all layers and kept, bytes
	Experts   bool   // the model routes tokens to experts
	States    bool   // some layers keep a state

	Samples  bool  // the rank samples: it is the last stage of a model that generates
	Towers   bool  // images, audio or video are profiled
	Item     int64 // tokens of the largest of them; 0: not known
	Pixels   int64 // values of it for each token
	Encoder  int64 // elements of its tower that live at once, for each token
	Compiled bool  // the forward pass is compiled
	Graphs   bool  // CUDA graphs are captured
}

// A Device is what terms depend on of an accelerator.
type Device struct {
	TotalBytes int64 // as the runtime reports it
	L2Bytes    int64
	SMs        int
	Capability [2]int
	Linked     bool // devices of a node reach each other by NVLink
}

// Version is an engine's major, minor and patch number.
type Version [3]int

// ParseVersion reads "0.33.0", with or without what builds append.
func ParseVersion(s string) (v Version) {
	part, n := 0, 0
	for i := 0; i <= len(s) && part < len(v); i++ {
		switch {
		case i == len(s) || s[i] == '.':
			v[part], n = n, 0
			part++
		case s[i] >= '0' && s[i] <= '9' && n < 1e6:
			n = 10*n + int(s[i]-'0')
		case i > 0 || s[i] != 'v':
			v[part] = n
			return v
		}
	}
	return v
}

// before compares versions.
func (v Version) before(o Version) bool {
	for i := range v {
		if v[i] != o[i] {
			return v[i] < o[i]
		}
	}
	return false
}
