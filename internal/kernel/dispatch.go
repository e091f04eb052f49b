package kernel

import (
	"fmt"
	"os"
)

// An implementation is one set of inner loops. Its functions are reached through the
// exported ones, which have checked every length and offset.
type implementation struct {
	name         string
	pairs        bool // products of pairs of bfloat16 are an instruction
	bytes        bool // products in float32 read 8-bit formats
	scores       func(dst, q []float32, t Tiles, width int)
	scoresPairs  func(dst []float32, q []uint16, t Tiles, width int)
	values       func(acc, alpha, p []float32, t Tiles, width int)
	valuesPairs  func(acc, alpha []float32, p []uint16, t Tiles, width int)
	softmax      func(s []float32, st State, see []Span, scale float32)
	softmaxPairs func(p []uint16, s []float32, st State, see []Span, scale float32)
	unpack       func(dst []byte, to Format, src, ahead []byte, from Format)
	transpose    func(dst, src []byte, width int, format Format)
	combine      func(dst, src, w []float32, width int)
	lanes        int // of a register of a spread vector
	fromHalves   func(dst []float32, src []byte)
	toHalves     func(dst []byte, src []float32)
	dots         func(y *[RowsAtOnce]float32, w []byte, stride int, x []float32)
	read         func(b []byte) uint64
	dotPeak      func(iterations int) int64
	fmaPeak      func(iterations int) int64
}

// implementations are what this processor can run, the best first; the reference is the last.
var implementations []*implementation

// impl is the one in use.
var impl *implementation

// Variable is the environment variable that names the implementation to use, for tests and
// comparisons. A name that this processor cannot run leaves the choice as it is.
const Variable = "HEADCOUNT_KERNEL"

func init() {
	implementations = append(assembly(), &generic)
	impl = implementations[0]
	_ = Use(os.Getenv(Variable))
}

// Paths are the implementations that this processor can run, the best first.
func Paths() []string {
	names := make([]string, len(implementations))
	for i, m := range implementations {
		names[i] = m.name
	}
	return names
}

// Path is the implementation in use: "avx512bf16", "avx512", "avx2" or "go".
func Path() string { return impl.name }

// Use changes the implementation in use. It is for tests: nothing may run meanwhile.
func Use(path string) error {
	for _, m := range implementations {
		if m.name == path {
			impl = m
			return nil
		}
	}
	return fmt.Errorf("kernel path %q: not one of %q", path, Paths())
}

// Pairs reports whether products of bfloat16 pairs are an instruction, and not an imitation.
func Pairs() bool { return impl.pairs }

// Bytes reports whether tiles of 8-bit formats are read by products as they are.
func Bytes() bool { return impl.bytes }
