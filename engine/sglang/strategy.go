package sglang

import (
	"cmp"
	"strings"

	"headcount/problem"
)

// stateStrategy decides how the prefix cache keeps states (overrides.py,
// _mamba_radix_cache_resolution): with an extra buffer per request where the architecture
// can, or without, which gives up overlap scheduling and pages.
func (f *flags) stateStrategy() *problem.Error {
	caches := f.entry.has(stateRadix) || f.states != nil && (f.arch == "GraniteMoeHybridForCausalLM" || f.states.registered)
	if f.noRadix {
		return nil
	}
	if !caches {
		if f.extraBuffer() {
			return problem.New(problem.Unsupported, "mamba_radix_cache_strategy", f.strategy, "%s has no states to keep", f.arch).
				WithHint("leave --mamba-radix-cache-strategy out").By(name)
		}
		return nil
	}
	if f.strategy == "" || f.strategy == "auto" {
		f.strategy = "no_buffer"
		if (!f.noOverlap || f.page > 1) && f.extraCapable() {
			f.strategy = "extra_buffer"
		} else {
			f.noOverlap = true
		}
	}
	if f.extraBuffer() {
		if !f.extraCapable() {
			return problem.New(problem.Unsupported, "mamba_radix_cache_strategy", f.strategy, "%s keeps no extra buffer", f.arch).
				WithHint("--mamba-radix-cache-strategy no_buffer").By(name)
		}
		return nil
	}
	switch {
	case f.page > 1:
		return problem.New(problem.Unsupported, "page_size", f.page, "states without an extra buffer are cached at page size 1").
			WithHint("--page-size 1, or --disable-radix-cache").By(name)
	case !f.noOverlap:
		return problem.New(problem.Unsupported, "mamba_radix_cache_strategy", f.strategy, "does not run with overlap scheduling").
			WithHint("--disable-overlap-schedule").By(name)
	case f.backend == "trtllm_mha":
		return problem.New(problem.Unsupported, "attention_backend", f.backend, "does not run with states cached without an extra buffer").
			WithHint("--mamba-radix-cache-strategy extra_buffer").By(name)
	}
	return nil
}

func (f *flags) extraCapable() bool {
	return f.entry.has(extraState)
}

// extraBuffer reports whether each request has state slots for tracking besides.
func (f *flags) extraBuffer() bool {
	return !f.noRadix && (f.strategy == "extra_buffer" || f.strategy == "extra_buffer_lazy")
}

// slotsPerRequest is how many state slots a request takes at most
// (_calculate_mamba_ratio).
func (f *flags) slotsPerRequest() int64 {
	switch {
	case f.noRadix:
		return 1
	case !f.extraBuffer():
		return 3
	case f.strategy == "extra_buffer_lazy" || f.noOverlap:
		return 4
	}
	return 5
}

// speculative fills what a drafting algorithm left open (speculative_hook.py).
func (f *flags) speculative() *problem.Error {
	if f.lay.PP > 1 {
		f.noOverlap = true
	}
	s := &f.spec
	switch s.algorithm {
	case "":
		return nil
	case "NEXTN":
		s.algorithm = "EAGLE"
	case "EAGLE", "EAGLE3", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "FROZEN_KV_MTP":
	default:
		return problem.New(problem.BadValue, "speculative_algorithm", s.algorithm, "not an algorithm of the engine").
			WithHint("one of EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM, DFLASH, DSPARK").By(name)
	}
	if f.maxRunning == 0 {
		f.maxRunning = 48
	}
	switch {
	case s.algorithm == "EAGLE3" && f.opts.Draft != nil && strings.HasPrefix(f.opts.Draft.Architecture, "Gemma4") && strings.HasSuffix(f.opts.Draft.Architecture, "AssistantForCausalLM"):
		return problem.New(problem.Unsupported, "speculative_algorithm", s.algorithm, "a Gemma 4 assistant reads the target's own cache").
			WithHint("--speculative-algorithm EAGLE").By(name)
	case s.algorithm == "STANDALONE" && f.attnDP > 1:
		return problem.New(problem.Unsupported, "speculative_algorithm", s.algorithm, "does not run with DP attention").By(name)
	case s.eagle():
		if s.steps == 0 {
			s.steps, s.topK, s.tokens = 3, 1, 4
			switch f.arch {
			case "LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM":
				s.steps, s.topK, s.tokens = 5, 4, 8
			}
		}
		if s.topK == 1 {
			s.tokens = s.steps + 1
		}
		if _, decode := f.phases(); s.topK > 1 && decode == "trtllm_mha" {
			return problem.New(problem.Unsupported, "speculative_eagle_topk", s.topK, "trtllm_mha drafts a chain only").
				WithHint("--speculative-eagle-topk 1").By(name)
		}
	case s.algorithm == "NGRAM":
		if s.tokens == 0 {
			s.tokens = 12
		}
		s.topK = 10 // --speculative-ngram-max-bfs-breadth
		if s.steps == 0 {
			s.steps = s.tokens / s.topK
		}
	default:
		if f.attnDP > 1 {
			return problem.New(problem.Unsupported, "speculative_algorithm", s.algorithm, "runs with DP attention only where the head is data parallel too").
				WithHint("the engine wants --enable-dp-lm-head, a layout that is not planned here").By(name)
		}
		s.steps, s.topK = 1, 1
		if refusal := f.blockTokens(); refusal != nil {
			return refusal
		}
	}
	if f.lay.PP > 1 {
		return problem.New(problem.Unsupported, "pipeline_parallel_size", f.lay.PP, "no speculative decoding over pipeline stages").By(name)
	}
	return nil
}

// blockTokens is how many tokens a block draft has verified at a time: as many as it writes,
// and with DSPARK the one that it starts from (speculative_hook.py, _handle_dflash,
// _handle_dspark).
func (f *flags) blockTokens() *problem.Error {
	s := &f.spec
	block := int64(0)
	if d := f.opts.Draft; d == nil {
		block = f.block
	} else if own, refusal := readDraft(d); refusal == nil {
		block = own.block
	}
	if s.algorithm == "DFLASH" {
		s.tokens = cmp.Or(s.tokens, block, 16)
		return nil
	}
	if block > 0 && s.tokens > 0 && s.tokens != block+1 {
		return problem.New(problem.BadValue, "speculative_num_draft_tokens", s.tokens, "the draft writes %d, and DSPARK verifies one more", block).
			WithHint("leave --speculative-num-draft-tokens out").By(name)
	}
	if block > 0 || s.tokens == 0 {
		s.tokens = cmp.Or(block, 7) + 1
	}
	return nil
}

// cacheRules end what concerns the cache: features that models do without, and ranges.
func (f *flags) cacheRules() *problem.Error {
	f.swaRatio, f.stateRatio = orElse(f.swaRatio, 0.8), orElse(f.stateRatio, 0.9)
	if !(f.swaRatio > 0 && f.swaRatio <= 1) {
		return problem.New(problem.BadValue, "swa_full_tokens_ratio", f.swaRatio, "not above 0 and at most 1").
			WithHint("0.8 is the engine's default for most models").By(name)
	}
	if !(f.stateRatio > 0) || f.stateRatio > 1e9 {
		return problem.New(problem.BadValue, "mamba_full_memory_ratio", f.stateRatio, "not above 0").
			WithHint("0.9 is the engine's default").By(name)
	}
	if f.multimodal && f.entry.has(unchunked) || f.onePass {
		f.chunk = -1
	}
	if f.onePass {
		f.noRadix = true
	}
	return nil
}
