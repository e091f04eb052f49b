package kernel

import (
	"fmt"
	"math"
)

// State is the running softmax of rows, in powers of two: after the runs seen so far, Sum
// is Σ 2^(logit-Max). Alpha is what the last run made of the weights before it. A row that
// has seen nothing has Max -Inf and Sum 0.
type State struct{ Max, Sum, Alpha []float32 }

// Span is the columns of a run that a row sees, [Lo, Hi).
type Span struct{ Lo, Hi int32 }

// minExponent is where 2^x is taken to be 0: weights are never denormal.
const minExponent = -126

// Softmax turns the scores of a run, [rows, Run], into weights relative to the rows' new
// maxima, and moves the rows' state on. A logit is a score times scale and is a power of
// two; columns outside a row's span weigh 0.
func Softmax(s []float32, st State, see []Span, scale float32) {
	checkSoftmax("Softmax", s, st, see)
	if len(see) > 0 {
		impl.softmax(s, st, see, scale)
	}
}

// SoftmaxPairs is [Softmax] with weights rounded to bfloat16, into p; sums are those of the
// weights before they were rounded. The scores are overwritten.
func SoftmaxPairs(p []uint16, s []float32, st State, see []Span, scale float32) {
	checkSoftmax("SoftmaxPairs", s, st, see)
	if len(p) != len(s) {
		panic(fmt.Sprintf("kernel: SoftmaxPairs: %d weights of %d scores", len(p), len(s)))
	}
	if len(see) > 0 {
		impl.softmaxPairs(p, s, st, see, scale)
	}
}

func checkSoftmax(name string, s []float32, st State, see []Span) {
	rows := len(see)
	if len(s) != rows*Run || len(st.Max) != rows || len(st.Sum) != rows || len(st.Alpha) != rows {
		panic(fmt.Sprintf("kernel: %s: %d scores of %d rows, state of %d, %d, %d", name, len(s), rows, len(st.Max), len(st.Sum), len(st.Alpha)))
	}
	for _, span := range see {
		if span.Lo < 0 || span.Hi > Run {
			panic(fmt.Sprintf("kernel: %s: columns [%d, %d) of %d", name, span.Lo, span.Hi, Run))
		}
	}
}

// Cap bends scores into logits: each becomes limit·tanh(score·scale/limit).
func Cap(s []float32, scale, limit float32) {
	for i, x := range s {
		s[i] = limit * float32(math.Tanh(float64(x*scale/limit)))
	}
}
