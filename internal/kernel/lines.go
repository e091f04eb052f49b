package kernel

import "fmt"

// A Format is how the elements of lines are stored.
type Format uint8

const (
	BF16 Format = iota
	F16
	E4M3
	E5M2
	F32
)

// Size is the bytes of one element.
func (f Format) Size() int { return int([...]int8{BF16: 2, F16: 2, E4M3: 1, E5M2: 1, F32: 4}[f]) }

// A run is what one call works on: up to 8 tiles.
const (
	RunTiles = 8
	TileStep = 4                // what the tiles of a call are a multiple of
	Run      = RunTiles * Lanes // tokens
)

// Tiles are the keys, or the values, of a run of tiles somewhere in memory. The keys of a
// tile are lines whose lanes are its 16 tokens and whose depth is the head's width. Its
// values are width/16 chunks whose lanes are 16 dims and whose depth is the 16 tokens.
type Tiles struct {
	Data   []byte
	At     []int  // byte of Data at which each begins: 4 or 8, the last repeated where there are fewer
	Ahead  []int  // as At, those that a later call will read: their first lines are fetched; or nil
	Format Format // BF16 or F32; where Bytes says so also E4M3 and E5M2, for products in float32
}

// check panics unless every tile of the given width is inside the data: past this point
// there is assembly.
func (t Tiles) check(name string, width int) {
	if len(t.At)%TileStep != 0 || len(t.At) > RunTiles || len(t.Ahead) != 0 && len(t.Ahead) != len(t.At) || t.Format != BF16 && t.Format != F32 && (t.Format.Size() != 1 || !impl.bytes) {
		panic(fmt.Sprintf("kernel: %s: %d tiles, %d ahead of format %d", name, len(t.At), len(t.Ahead), t.Format))
	}
	if width <= 0 || width%Lanes != 0 {
		panic(fmt.Sprintf("kernel: %s: width %d is not a positive multiple of %d", name, width, Lanes))
	}
	last := len(t.Data) - Lanes*width*t.Format.Size()
	for _, list := range [...][]int{t.At, t.Ahead} {
		for _, at := range list {
			if at < 0 || at > last {
				panic(fmt.Sprintf("kernel: %s: a tile at %d ends beyond %d bytes", name, at, len(t.Data)))
			}
		}
	}
}

// Scores writes the products of rows of queries with the keys of a run: dst is [rows, Run],
// of which columns past the tiles mean nothing, and q [rows, width]. The products
// and sums are those of float32.
func Scores(dst, q []float32, t Tiles, width int) {
	t.check("Scores", width)
	rows := len(q) / width
	if len(q) != rows*width || len(dst) != rows*Run {
		panic(fmt.Sprintf("kernel: Scores: %d scores of %d queries of width %d", len(dst), len(q), width))
	}
	if len(t.At) == 0 || rows == 0 {
		return
	}
	impl.scores(dst, q, t, width)
}

// ScoresPairs is [Scores] of queries in bfloat16, [rows, width] with rows a multiple of 8,
// and keys in bfloat16: products of pairs are exact and sums are float32.
func ScoresPairs(dst []float32, q []uint16, t Tiles, width int) {
	t.check("ScoresPairs", width)
	rows := len(q) / width
	if len(q) != rows*width || rows%PairRows != 0 || len(dst) != rows*Run || t.Format != BF16 {
		panic(fmt.Sprintf("kernel: ScoresPairs: %d scores of %d queries of width %d, format %d", len(dst), len(q), width, t.Format))
	}
	if len(t.At) == 0 || rows == 0 {
		return
	}
	impl.scoresPairs(dst, q, t, width)
}

// PairRows is what the rows of the bfloat16 products are a multiple of.
const PairRows = 8

// Values adds weighted values to what rows have accumulated: acc[r] = acc[r]·alpha[r] +
// Σ p[r][t]·value[t], with acc [rows, width], alpha [rows], p [rows, Run].
func Values(acc, alpha, p []float32, t Tiles, width int) {
	t.check("Values", width)
	rows := len(alpha)
	if len(acc) != rows*width || len(p) != rows*Run {
		panic(fmt.Sprintf("kernel: Values: %d sums, %d weights of %d rows of width %d", len(acc), len(p), rows, width))
	}
	if len(t.At) == 0 || rows == 0 {
		return
	}
	impl.values(acc, alpha, p, t, width)
}

// ValuesPairs is [Values] with weights in bfloat16, rows a multiple of 8, and values in
// bfloat16.
func ValuesPairs(acc, alpha []float32, p []uint16, t Tiles, width int) {
	t.check("ValuesPairs", width)
	rows := len(alpha)
	if len(acc) != rows*width || rows%PairRows != 0 || len(p) != rows*Run || t.Format != BF16 {
		panic(fmt.Sprintf("kernel: ValuesPairs: %d sums, %d weights of %d rows of width %d, format %d", len(acc), len(p), rows, width, t.Format))
	}
	if len(t.At) == 0 || rows == 0 {
		return
	}
	impl.valuesPairs(acc, alpha, p, t, width)
}

// Unpack converts elements between formats, in the order of [Place] of each: src is whole
// lines of 256 elements. A conversion is exact, so it is to F32, or of an 8-bit format
// also to BF16. Ahead is what a later call reads, which is fetched meanwhile: nil or as long
// as src.
func Unpack(dst []byte, to Format, src, ahead []byte, from Format) {
	n := len(src) / from.Size()
	if n*from.Size() != len(src) || n%256 != 0 || len(dst) != n*to.Size() || to != F32 && (to != BF16 || from.Size() != 1) || len(ahead) != 0 && len(ahead) != len(src) {
		panic(fmt.Sprintf("kernel: Unpack: %d bytes of format %d to %d bytes of format %d", len(src), from, len(dst), to))
	}
	if n == 0 {
		return
	}
	impl.unpack(dst, to, src, ahead, from)
}

// Transpose turns keys into values: of one tile's lines of keys, the leading width dims as
// chunks of values. It is what MLA reads twice. The format is BF16 or F32.
func Transpose(dst, src []byte, width int, format Format) {
	n := Lanes * width * format.Size()
	if width <= 0 || width%Lanes != 0 || len(dst) != n || len(src) < n || format != BF16 && format != F32 {
		panic(fmt.Sprintf("kernel: Transpose: %d bytes to %d, width %d, format %d", len(src), len(dst), width, format))
	}
	impl.transpose(dst, src, width, format)
}

// Combine adds weighted rows: dst[r] += w[r]·src[r], with dst and src [rows, width]. It is
// how parts of a sequence become one.
func Combine(dst, src, w []float32, width int) {
	if width <= 0 || len(dst) != len(w)*width || len(src) != len(dst) {
		panic(fmt.Sprintf("kernel: Combine: %d and %d sums, %d rows of width %d", len(dst), len(src), len(w), width))
	}
	if len(w) > 0 {
		impl.combine(dst, src, w, width)
	}
}
