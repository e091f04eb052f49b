package sglang

import "strconv"

// lines are the log lines of the pools and the scheduler's summary, to the letter. They
// share one backing string.
func (s *setup) lines(z *sizing, pools []pool, out []string) []string {
	b := make(text, 0, 512)
	var ends [maxLines]int
	n := 0
	end := func() { ends[n] = len(b); n++ }

	if s.reserveMiB > 0 {
		b.reserve(s.reserveMiB)
		end()
	}
	if z.own != z.tokens { // logged once by its own budget, once as the stages or the cap have it
		own := *z
		if s.split(&own, z.own) == nil && b.division(s, &own) {
			end()
		}
	}
	if b.division(s, z) {
		end()
	}
	if s.state != nil {
		if z.stateCaps {
			b.capped(s, z)
			end()
		}
		b.state(s, z)
		end()
	}
	for i := range pools {
		b.pool(&pools[i])
		end()
	}
	if s.sliding != nil && s.dsv4 == nil {
		b.add("SWAKVPool mem usage: ")
		b.gib(float64(pools[0].k+pools[1].k+pools[0].v+pools[1].v) / gib)
		b.pair(" GB, swa size: ", z.window)
		b.pair(", full size: ", z.full)
		end()
	}
	b.pair("max_total_num_tokens=", z.logical)
	b.pair(", chunked_prefill_size=", s.chunk)
	b.pair(", max_prefill_tokens=", s.maxPrefill)
	b.pair(", max_running_requests=", z.running)
	b.pair(", context_len=", s.context)
	end()

	whole := string(b)
	for i, start := 0, 0; i < n; i++ {
		out = append(out, whole[start:ends[i]])
		start = ends[i]
	}
	return out
}

// maxLines is the most lines that lines returns.
const maxLines = maxPools + 7

// division is the line that says how the tokens are divided over unlike pools; most
// models have no such line.
func (b *text) division(s *setup, z *sizing) bool {
	switch {
	case s.dsv4 != nil:
		b.pair("DSV4 pool sizes: full=", z.full)
		b.pair(", swa=", z.window)
		b.pair(", c4=", z.c4)
		b.pair(", c128=", z.c128)
		b.pair(", c4_state=", z.c4State)
		b.pair(", c128_state=", 0) // logged before the number of requests is known
	case s.sliding != nil && s.stages[0].layers == 0:
		b.pair("Use sliding window memory pool (all SWA). swa_layer_tokens=", z.window)
	case s.sliding != nil && !s.capped(&s.stages[0]):
		b.pair("Use sliding window memory pool. full_layer_tokens=", z.full)
		b.pair(", swa_layer_tokens=", z.window)
	default:
		return false
	}
	return true
}

// text builds lines without formatting machinery.
type text []byte

func (b *text) add(s string) { *b = append(*b, s...) }

func (b *text) int(n int64) { *b = strconv.AppendInt(*b, n, 10) }

// gib writes Python's {:.2f}.
func (b *text) gib(x float64) { *b = strconv.AppendFloat(*b, x, 'f', 2, 64) }

// pair writes a label and its number.
func (b *text) pair(label string, n int64) {
	b.add(label)
	b.int(n)
}

func (b *text) pool(p *pool) {
	if !p.joint { // pools of latents carry no label
		switch p.name {
		case "full":
			b.add("Full ")
		case "window":
			b.add("SWA ")
		}
	}
	b.add("KV Cache is allocated. dtype: torch.")
	b.add(p.dtype)
	b.add(", #tokens: ")
	b.int(p.tokens)
	if p.joint {
		b.add(", KV size: ")
		b.gib(float64(p.k) / gib)
		b.add(" GB")
		return
	}
	b.add(", K size: ")
	b.gib(float64(p.k) / gib)
	b.add(" GB, V size: ")
	b.gib(float64(p.v) / gib)
	b.add(" GB")
}

func (b *text) reserve(mib int64) {
	b.add("Reserving ")
	b.gib(float64(mib) / 1024)
	b.add(" GB of the KV budget for post-sizing multimodal allocations (feature-transport pools + embedding cache).")
}

func (b *text) capped(s *setup, z *sizing) {
	b.pair("max_running_requests is capped to ", z.running)
	b.pair(" by the mamba state cache (max_mamba_cache_size=", z.slots)
	b.pair(", ", s.state.perReq)
	b.add(" state slots per request). To raise it: increase --mamba-full-memory-ratio or --max-mamba-cache-size, " +
		"or halve the state size with --mamba-ssm-dtype bfloat16.")
}

func (b *text) state(s *setup, z *sizing) {
	conv, temporal, draftConv, draftTemporal := s.stateBytes(z)
	b.add("Mamba Cache is allocated. max_mamba_cache_size: ")
	b.int(z.slots)
	b.add(", conv_state size: ")
	b.gib(float64(conv) / gib)
	b.add("GB, ssm_state size: ")
	b.gib(float64(temporal) / gib)
	b.add("GB ")
	if s.draft.on {
		b.add("intermediate_ssm_state_cache size: ")
		b.gib(float64(draftTemporal) / gib)
		b.add("GB intermediate_conv_window_cache size: ")
		b.gib(float64(draftConv) / gib)
		b.add("GB ")
	}
}
