package paged

import (
	"crypto/sha256"
	"encoding/binary"
)

// A digest names the content of a full block: its tokens and all tokens before them. Equal
// digests are taken for equal content, as vLLM takes them (its default is SHA-256 too).
type digest [sha256.Size]byte

// extend is the digest of a block of tokens that follows the content before. The digest
// before the first block is zero.
func (before digest) extend(tokens []int32) digest {
	h := sha256.New()
	h.Write(before[:])
	var word [4]byte
	for _, t := range tokens {
		binary.LittleEndian.PutUint32(word[:], uint32(t))
		h.Write(word[:])
	}
	var d digest
	h.Sum(d[:0])
	return d
}

// NewSequence begins a sequence for a prompt. It shares the published blocks that hold the
// beginning of the prompt: [Sequence.Len] says how many tokens that is, and the caller
// appends the rest. At least the last token of the prompt is
// always left, because its output has to be computed (as in vLLM, v1/core/kv_cache_manager.py,
// KVCacheManager.get_computed_blocks). A nil prompt begins an empty sequence.
func (p *Pool) NewSequence(prompt []int32) *Sequence {
	s := &Sequence{pool: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	for rest := prompt; len(rest) > p.span; rest = rest[p.span:] {
		content := s.content.extend(rest[:p.span])
		b, ok := p.ledger.published[content]
		if !ok {
			break
		}
		p.ledger.share(b)
		s.blocks = append(s.blocks, b)
		s.content = content
	}
	s.published = len(s.blocks)
	s.tokens = append(s.tokens, prompt[:s.published*p.span]...)
	return s
}

// Publish makes the full blocks of s findable by later prompts. Call it when the keys and
// values of all tokens appended so far are in place, in every layer; from then on those of
// the published blocks cannot be changed.
func (s *Sequence) Publish() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for full := len(s.tokens) / p.span; s.published < full; s.published++ {
		at := s.published * p.span
		s.content = s.content.extend(s.tokens[at : at+p.span])
		p.ledger.publish(s.blocks[s.published], s.content)
	}
}
