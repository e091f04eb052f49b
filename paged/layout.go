package paged

import (
	"math"

	"headcount/attn"
	"headcount/dtype"
	"headcount/internal/kernel"
	"headcount/problem"
	"headcount/units"
)

// maxBlockBytes bounds one layer's block, so that every offset inside it is an int anywhere.
const maxBlockBytes = 1 << 30

// Layout is how one layer's keys and values lie in one block of one rank's pool. It is
// comparable; the zero Layout is invalid.
//
// A block is [KVHeads][BlockSize/16] tiles, and a tile is 16 tokens of one head: its keys,
// then its values, without padding. When both widths are multiples of 16 the tile is made
// of lines of 64 bytes that an instruction takes whole: a line of keys holds 16 tokens × 2
// dims of a 2-byte format, one of values 16 dims × 2 tokens (4-byte: × 1, 1-byte: × 4).
// Other widths are plain rows, [16][KeyDim] then [16][ValueDim].
type Layout struct {
	Geometry       attn.Geometry // of this rank: its query heads and the KV heads it holds
	DType          dtype.Type    // bfloat16, float16, float8_e4m3fn, float8_e5m2 or float32
	BlockSize      int           // tokens, a multiple of 16
	KScale, VScale float32       // per tensor: what is stored is value / scale; 0 means 1. MLA has only KScale
}

// Validate reports the first field that no block can have. The error is a [*problem.Error].
func (l Layout) Validate() error {
	if err := l.Geometry.Validate(); err != nil {
		return err
	}
	switch {
	case !l.DType.Floats():
		return problem.New(problem.BadValue, "kv_cache_dtype", l.DType.String(), "not bfloat16, float16, float8_e4m3fn, float8_e5m2 or float32")
	case l.BlockSize <= 0 || l.BlockSize%kernel.Lanes != 0:
		return problem.New(problem.BadValue, "block_size", l.BlockSize, "not a positive multiple of %d tokens", kernel.Lanes)
	}
	for _, scale := range [...]struct {
		field string
		x     float32
	}{{"k_scale", l.KScale}, {"v_scale", l.VScale}} {
		if !(scale.x >= 0) || math.IsInf(float64(scale.x), 0) {
			return problem.New(problem.BadValue, scale.field, float64(scale.x), "not a positive number")
		}
	}
	width, ok := units.Add(int64(l.Geometry.KeyDim), int64(l.Geometry.ValueDim))
	if !ok {
		width = math.MaxInt64
	}
	if n, ok := units.Mul(int64(l.Geometry.KVHeads), width, l.DType.Bytes(), int64(l.BlockSize)); !ok || n > maxBlockBytes {
		return problem.New(problem.BadValue, "block_size", l.BlockSize, "a block of this layer is larger than %v", units.Bytes(maxBlockBytes))
	}
	return nil
}

// TokenBytes is what one token takes on this rank: KVHeads · (KeyDim + ValueDim) elements.
func (l Layout) TokenBytes() int {
	return l.Geometry.KVHeads * (l.Geometry.KeyDim + l.Geometry.ValueDim) * int(l.DType.Bytes())
}

// BlockBytes is what one block takes on this rank.
func (l Layout) BlockBytes() int { return l.BlockSize * l.TokenBytes() }

// Put writes tokens slot, slot+1, … of a block: k is [tokens, KVHeads, KeyDim] and v
// [tokens, KVHeads, ValueDim], or nil for MLA, whose k is the latent and then the rope key.
// Values are divided by the scales and rounded as [dtype.Type.Encode] does.
func (l Layout) Put(block []byte, slot int, k, v []float32) error {
	tokens, err := l.checkTokens(block, slot, k, v)
	if err != nil {
		return err
	}
	g := l.Geometry
	for t := range tokens {
		for h := range g.KVHeads {
			l.putRow(block, l.keys(h, slot+t), orOne(l.KScale), k[(t*g.KVHeads+h)*g.KeyDim:][:g.KeyDim])
			if g.ValueDim > 0 {
				l.putRow(block, l.values(h, slot+t), orOne(l.VScale), v[(t*g.KVHeads+h)*g.ValueDim:][:g.ValueDim])
			}
		}
	}
	return nil
}

// Get reads back what [Layout.Put] wrote, into slices of the same shapes.
func (l Layout) Get(block []byte, slot int, k, v []float32) error {
	tokens, err := l.checkTokens(block, slot, k, v)
	if err != nil {
		return err
	}
	g := l.Geometry
	for t := range tokens {
		for h := range g.KVHeads {
			l.getRow(block, l.keys(h, slot+t), orOne(l.KScale), k[(t*g.KVHeads+h)*g.KeyDim:][:g.KeyDim])
			if g.ValueDim > 0 {
				l.getRow(block, l.values(h, slot+t), orOne(l.VScale), v[(t*g.KVHeads+h)*g.ValueDim:][:g.ValueDim])
			}
		}
	}
	return nil
}

// checkTokens is how many tokens k and v hold, or what is wrong with them.
func (l Layout) checkTokens(block []byte, slot int, k, v []float32) (int, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	keys, values := l.Geometry.KVHeads*l.Geometry.KeyDim, l.Geometry.KVHeads*l.Geometry.ValueDim
	tokens := len(k) / keys
	switch {
	case len(block) != l.BlockBytes():
		return 0, wrongLength("block", len(block), "%d bytes", l.BlockBytes())
	case len(k) != tokens*keys:
		return 0, wrongLength("k", len(k), "[tokens, %d, %d]", l.Geometry.KVHeads, l.Geometry.KeyDim)
	case len(v) != tokens*values:
		return 0, wrongLength("v", len(v), "[%d, %d, %d]", tokens, l.Geometry.KVHeads, l.Geometry.ValueDim)
	case slot < 0 || slot > l.BlockSize-tokens:
		return 0, problem.New(problem.BadValue, "slot", slot, "%d tokens from here are not in a block of %d", tokens, l.BlockSize)
	}
	return tokens, nil
}

// wrongLength is the problem of a slice of n elements that does not have the wanted shape.
func wrongLength(field string, n int, want string, args ...any) error {
	return problem.New(problem.BadValue, field, nil, "%d elements, want "+want, append([]any{n}, args...)...)
}

// lines reports whether tiles are made of lines, and not of plain rows.
func (l Layout) lines() bool {
	g := l.Geometry
	return g.KeyDim%kernel.Lanes == 0 && g.ValueDim%kernel.Lanes == 0 && g.LatentDim%kernel.Lanes == 0
}

// tileBytes is what 16 tokens of one head take, keys and values.
func (l Layout) tileBytes() int { return kernel.Lanes * l.TokenBytes() / l.Geometry.KVHeads }

// keyBytes is the part of a tile that its keys take.
func (l Layout) keyBytes() int { return kernel.Lanes * l.Geometry.KeyDim * int(l.DType.Bytes()) }

// tile is where the tile of a head that holds a slot begins in a block.
func (l Layout) tile(head, slot int) int {
	return (head*(l.BlockSize/kernel.Lanes) + slot/kernel.Lanes) * l.tileBytes()
}

// row is where the elements of one token and head are: element d of them begins at
// byte at(d) of the block.
type row struct {
	start, slot, width int
	depth              bool // dims run along the depth of lines, as in keys
}

func (l Layout) keys(head, slot int) row {
	return row{l.tile(head, slot), slot % kernel.Lanes, l.Geometry.KeyDim, true}
}

func (l Layout) values(head, slot int) row {
	return row{l.tile(head, slot) + l.keyBytes(), slot % kernel.Lanes, l.Geometry.ValueDim, false}
}

func (l Layout) at(r row, d int) int {
	size := int(l.DType.Bytes())
	element := r.slot*r.width + d
	switch {
	case l.lines() && r.depth:
		element = kernel.Place(size, r.slot, d)
	case l.lines():
		element = d/kernel.Lanes*kernel.Lanes*kernel.Lanes + kernel.Place(size, d%kernel.Lanes, r.slot)
	}
	return r.start + element*size
}

func (l Layout) putRow(block []byte, r row, scale float32, x []float32) {
	size := int(l.DType.Bytes())
	var one [1]float32
	for d, v := range x {
		one[0] = v / scale
		at := l.at(r, d)
		l.DType.Encode(block[at:at+size], one[:])
	}
}

func (l Layout) getRow(block []byte, r row, scale float32, x []float32) {
	size := int(l.DType.Bytes())
	var one [1]float32
	for d := range x {
		at := l.at(r, d)
		l.DType.Decode(one[:], block[at:at+size])
		x[d] = one[0] * scale
	}
}

// unpackRows makes float32 lines of a tile of plain rows; dims past the widths become 0.
func (l Layout) unpackRows(dst, src []byte, keys int) {
	clear(dst)
	size, g := int(l.DType.Bytes()), l.Geometry
	var one [1]float32
	move := func(from, to int) {
		l.DType.Decode(one[:], src[from*size:])
		dtype.Float32.Encode(dst[to*4:], one[:])
	}
	for t := range kernel.Lanes {
		for d := range g.KeyDim {
			move(t*g.KeyDim+d, kernel.Place(4, t, d))
		}
		for d := range g.ValueDim {
			chunk := kernel.Lanes * (keys + d/kernel.Lanes*kernel.Lanes)
			move(kernel.Lanes*g.KeyDim+t*g.ValueDim+d, chunk+kernel.Place(4, d%kernel.Lanes, t))
		}
	}
}

// orOne is a scale, of which 0 means 1.
func orOne(scale float32) float32 {
	if scale == 0 {
		return 1
	}
	return scale
}
