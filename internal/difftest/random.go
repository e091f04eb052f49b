package difftest

import (
	"math"
	"math/rand/v2"
)

// random is a seeded source with the few questions that drawing asks.
type random struct{ *rand.Rand }

// seeded is the source of one stream of a seed.
func seeded(seed, stream uint64) random {
	return random{rand.New(rand.NewPCG(seed, stream))}
}

// one is true once in n.
func (r random) one(n int) bool { return r.IntN(n) == 0 }

// logUniform draws between lo and hi, each octave as likely as another.
func (r random) logUniform(lo, hi float64) float64 {
	return math.Exp(math.Log(lo) + r.Float64()*(math.Log(hi)-math.Log(lo)))
}

// pick draws one of the values.
func pick[T any](r random, values ...T) T { return values[r.IntN(len(values))] }
