package kernel

import "encoding/binary"

// Read reads every byte with the widest loads there are, from several places at once, and
// returns a fold of them, so that the reading cannot be left out. It is the yardstick of
// what is bound by memory.
func Read(b []byte) uint64 { return impl.read(b) }

// DotPeak multiplies registers by registers for some iterations, with the instruction of
// products of pairs or, where there is none, multiply-add of float32, and returns the FLOP
// that took. It is the yardstick of what is bound by arithmetic.
func DotPeak(iterations int) (flop int64) { return impl.dotPeak(iterations) }

// FMAPeak is [DotPeak] of float32.
func FMAPeak(iterations int) (flop int64) { return impl.fmaPeak(iterations) }

func readGeneric(b []byte) uint64 {
	var sum uint64
	for ; len(b) >= 8; b = b[8:] {
		sum += binary.LittleEndian.Uint64(b)
	}
	for _, x := range b {
		sum += uint64(x)
	}
	return sum
}

func peakGeneric(iterations int) int64 {
	var x, sum [Lanes]float32
	for range iterations {
		axpy(sum[:], 1, &x)
	}
	return int64(iterations)*2*Lanes + int64(sum[0]) // a sum of nothing, which cannot be left out
}
