package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
)

// RowsAtOnce is how many rows [Dots] multiplies together, each a stream of memory.
const RowsAtOnce = 4

// RowColumns is the bfloat16s of a line, of which what [Dots] multiplies is a whole number.
const RowColumns = 32

// Spread reorders a vector for [Dots]: in each group of as many elements as two registers
// hold, those of even index and then those of odd index. Elements past the last whole line
// are left out.
func Spread(dst, x []float32) {
	n := len(x) / RowColumns * RowColumns
	if len(dst) < n {
		panic(fmt.Sprintf("kernel: Spread: %d elements for %d", len(dst), n))
	}
	lanes := impl.lanes
	for g := 0; g < n; g += 2 * lanes {
		for i := range lanes {
			dst[g+i], dst[g+lanes+i] = x[g+2*i], x[g+2*i+1]
		}
	}
}

// Dots multiplies rows of bfloat16, the first at the beginning of w and each stride bytes
// after the one before, by a vector that is spread.
func Dots(y *[RowsAtOnce]float32, w []byte, stride int, x []float32) {
	if len(x)%RowColumns != 0 || stride < 0 || stride > len(w) || (RowsAtOnce-1)*stride+2*len(x) > len(w) {
		panic(fmt.Sprintf("kernel: Dots: rows of %d in steps of %d bytes, of %d bytes", len(x), stride, len(w)))
	}
	if len(x) == 0 {
		*y = [RowsAtOnce]float32{}
		return
	}
	impl.dots(y, w, stride, x)
}

func dotsGeneric(y *[RowsAtOnce]float32, w []byte, stride int, x []float32) {
	for row := range y {
		var sum float32
		for i, v := range x {
			sum += v * math.Float32frombits(uint32(binary.LittleEndian.Uint16(w[row*stride+2*i:]))<<16)
		}
		y[row] = sum
	}
}
