// Package kernel is the inner loops of decode attention and of matrix-vector products, in
// assembly where the processor has what they need and in Go everywhere.
package kernel

// Lanes is the tokens of a tile of keys, the dims of a line of values: the float32s of one
// 64-byte register.
const Lanes = 16

// Place is where an element lies among lines of 64 bytes, counted in elements of the given
// size: lane is its place among the 16 of a line, depth its place along the lines. A line
// holds 16 lanes × 2 depth of a 2-byte format and 16 × 1 of a 4-byte format. Of a 1-byte
// format it holds 16 × 4, in the order in which the two halves of an interleaving
// instruction are the two lines of a 2-byte format.
func Place(size, lane, depth int) int {
	switch size {
	case 1:
		return depth/4*64 + lane/4*16 + depth%4/2*8 + lane%4*2 + depth%2
	case 2:
		return depth/2*32 + lane*2 + depth%2
	}
	return depth*Lanes + lane
}
