package kernel

import "fmt"

// FromHalves reads len(dst) float16s, little-endian and in order.
func FromHalves(dst []float32, src []byte) {
	if len(src) != 2*len(dst) {
		panic(fmt.Sprintf("kernel: FromHalves: %d bytes for %d elements", len(src), len(dst)))
	}
	impl.fromHalves(dst, src)
}

// ToHalves writes src as float16s, each the nearest, ties to even, infinity beyond the
// largest.
func ToHalves(dst []byte, src []float32) {
	if len(dst) != 2*len(src) {
		panic(fmt.Sprintf("kernel: ToHalves: %d elements for %d bytes", len(src), len(dst)))
	}
	impl.toHalves(dst, src)
}
