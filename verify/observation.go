package verify

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Fact is one thing that an engine said, or that the reader of its log was told.
type Fact struct {
	// Name is a Request's where it is an option (tensor_parallel_size), a report's where it
	// is a result (tokens, num_blocks, available_bytes).
	Name  string `json:"name"`
	Rank  string `json:"rank,omitempty"` // who said it: "TP0", "PP1 TP0", "DP0"; "" for the engine itself
	Value any    `json:"value"`          // string, bool, int64, float64, Size or json.RawMessage
	Line  int64  `json:"line,omitempty"` // of the log, from 1; 0 when no line says it
	From  string `json:"from,omitempty"` // what says it when no line does: "/metrics", "--model"
}

// A Size is a number of bytes as it was printed, rounded. The engine's own lies within Slack
// of Bytes; a Slack of 0 is exact.
type Size struct{ Bytes, Slack int64 }

// MarshalJSON is the bytes.
func (s Size) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, s.Bytes, 10), nil }

// Least and Most are the ends of what the engine may have had.
func (s Size) Least() int64 { return s.Bytes - s.Slack }

// Most is the upper end.
func (s Size) Most() int64 { return s.Bytes + s.Slack }

// gibibytes is a printed number of GiB as a Size: half of its last digit is not known.
func gibibytes(text string) (Size, bool) { return sized(text, 1<<30) }

// sized is a printed number of units. "20.0" is what Python prints of a value rounded to two
// decimals, so one decimal is taken as two.
func sized(text string, unit float64) (Size, bool) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(x) > 1<<30 {
		return Size{}, false
	}
	decimals := 0
	if dot := strings.IndexByte(text, '.'); dot >= 0 {
		decimals = max(2, len(text)-dot-1)
	}
	half := unit / 2 * math.Pow10(-decimals)
	return Size{int64(math.Round(x * unit)), int64(math.Ceil(half))}, true
}

// A Refusal is the engine's own word on why it did not start.
type Refusal struct {
	Kind    string `json:"kind"` // pool_too_small, no_blocks, not_divisible, too_long, unsupported, failed
	Message string `json:"message"`
	Line    int64  `json:"line,omitempty"`

	Needed               *Size  `json:"needed_bytes,omitempty"`    // for one request of the maximum length
	Available            *Size  `json:"available_bytes,omitempty"` // for the cache
	EstimatedMaxModelLen *int64 `json:"estimated_max_model_len,omitempty"`
}

// An Observation is what one start of an engine said.
type Observation struct {
	Source  string // the file, or the address
	Engine  string // vllm, sglang, llama.cpp, tensorrt-llm; "" when nothing tells
	Version string // as it printed it; "" when it did not
	Facts   []Fact // the last value of each name and rank, in order of first appearance
	Refusal *Refusal
	Fell    *Refusal // an exception that came after it had started
	Started bool     // it went as far as to size its cache, or to answer

	dropped int // facts beyond the bound
}

// Bounds of what is kept of one start: far above any server, so that a hostile log costs
// no memory.
const (
	maxFacts = 4096
	maxText  = 512 // bytes of a string that is kept
)

// Set keeps a fact; a later one of the same name and rank takes its place.
func (o *Observation) Set(f Fact) {
	if s, ok := f.Value.(string); ok && len(s) > maxText {
		f.Value = strings.ToValidUTF8(s[:maxText], "")
	}
	for i := range o.Facts {
		if old := &o.Facts[i]; old.Name == f.Name && old.Rank == f.Rank {
			if !reflect.DeepEqual(old.Value, f.Value) { // said again, it keeps its line
				*old = f
			}
			return
		}
	}
	if len(o.Facts) >= maxFacts {
		o.dropped++
		return
	}
	o.Facts = append(o.Facts, f)
}

// Find is the fact of a name: where ranks differ, the one that binds, which is the
// smallest number.
func (o *Observation) Find(name string) (Fact, bool) {
	var best *Fact
	for i := range o.Facts {
		if f := &o.Facts[i]; f.Name == name && (best == nil || number(f.Value) < number(best.Value)) {
			best = f
		}
	}
	if best == nil {
		return Fact{}, false
	}
	return *best, true
}

// All are the facts of a name, one a rank.
func (o *Observation) All(name string) []Fact {
	return slices.DeleteFunc(slices.Clone(o.Facts), func(f Fact) bool { return f.Name != name })
}

// Int is a fact that is a whole number.
func (o *Observation) Int(name string) (int64, bool) {
	f, ok := o.Find(name)
	n, isInt := f.Value.(int64)
	return n, ok && isInt
}

// Float is a fact that is a number.
func (o *Observation) Float(name string) (float64, bool) {
	f, ok := o.Find(name)
	if !ok {
		return 0, false
	}
	x := number(f.Value)
	return x, !math.IsInf(x, 1)
}

// Text is a fact that is a string, "" when there is none.
func (o *Observation) Text(name string) string {
	f, _ := o.Find(name)
	s, _ := f.Value.(string)
	return s
}

// Size is a fact that is a number of bytes.
func (o *Observation) Size(name string) (Size, bool) {
	f, ok := o.Find(name)
	switch v := f.Value.(type) {
	case Size:
		return v, ok
	case int64:
		return Size{Bytes: v}, ok
	}
	return Size{}, false
}

// number is a value's size for comparison; what is no number is larger than any.
func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	case Size:
		return float64(v.Bytes)
	}
	return math.Inf(1)
}

// MarshalJSON is the facts by name, of ranks that differ the one that binds.
func (o *Observation) MarshalJSON() ([]byte, error) {
	binding := map[string]any{}
	for _, f := range o.Facts {
		if _, done := binding[f.Name]; !done {
			f, _ = o.Find(f.Name)
			binding[f.Name] = f.Value
		}
	}
	return json.Marshal(binding)
}

// ParseGiB reads a number of GiB as an engine prints it.
func ParseGiB(text string) (Size, bool) { return gibibytes(text) }
