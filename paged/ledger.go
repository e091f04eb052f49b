package paged

import (
	"errors"
	"fmt"
)

// ErrNoBlocks is what a pool answers when it has fewer free blocks than a call needs. The
// error itself is a [*NoBlocksError]; the call has changed nothing.
var ErrNoBlocks = errors.New("not enough free blocks")

// A NoBlocksError says how many blocks a call asked for and how many were free.
type NoBlocksError struct{ Asked, Free int }

// Error reads "9 blocks asked for, 4 free: not enough free blocks".
func (e *NoBlocksError) Error() string {
	return fmt.Sprintf("%d blocks asked for, %d free: %v", e.Asked, e.Free, ErrNoBlocks)
}

// Unwrap returns [ErrNoBlocks].
func (e *NoBlocksError) Unwrap() error { return ErrNoBlocks }

// A ledger keeps the accounts of a pool's blocks and knows nothing of their bytes. A block
// is in one of four states:
//
//	clean   free, all zero
//	idle    free, its content still published: a later prompt may take it up again
//	held    sequences refer to it, as many as its references
//	limbo   nobody's: given back, and being zeroed
//
// The pool's lock guards it.
type ledger struct {
	accounts  []account
	clean     queue
	idle      queue // least recently used first
	published map[digest]int32
	held      int
	highWater int // most blocks held at a time
}

// An account is what is known of one block. Free blocks are in a queue.
type account struct {
	refs       int32
	prev, next int32
	content    digest // under which the block is published; zero if it is not
}

// none is no block.
const none int32 = -1

// newLedger has n clean blocks, the lowest number first.
func newLedger(n int) ledger {
	l := ledger{accounts: make([]account, n), published: map[digest]int32{}, clean: empty, idle: empty}
	for b := range l.accounts {
		l.push(&l.clean, int32(b))
	}
	return l
}

// free is how many blocks a call may have.
func (l *ledger) free() int { return l.clean.n + l.idle.n }

// take moves n free blocks to the end of dst, one reference each: clean ones first, then
// those idle for longest, whose content is withdrawn. The caller has to zero the last
// dirty of them. With fewer than n blocks free nothing changes.
func (l *ledger) take(dst []int32, n int) (blocks []int32, dirty int, err error) {
	if n > l.free() {
		return dst, 0, &NoBlocksError{Asked: n, Free: l.free()}
	}
	dirty = max(n-l.clean.n, 0)
	for range n {
		from := &l.clean
		if from.n == 0 {
			from = &l.idle
		}
		b := from.first
		l.remove(from, b)
		l.withdraw(b)
		l.accounts[b].refs = 1
		dst = append(dst, b)
	}
	l.held += n
	l.highWater = max(l.highWater, l.held)
	return dst, dirty, nil
}

// share adds a reference to b, which is held or idle.
func (l *ledger) share(b int32) {
	a := &l.accounts[b]
	if a.refs == 0 {
		l.remove(&l.idle, b)
		l.held++
		l.highWater = max(l.highWater, l.held)
	}
	a.refs++
}

// drop takes a reference from b and reports whether the block is now in limbo. A published
// block that nobody refers to any more becomes idle instead.
func (l *ledger) drop(b int32) bool {
	a := &l.accounts[b]
	a.refs--
	if a.refs > 0 {
		return false
	}
	l.held--
	if a.content != (digest{}) {
		l.push(&l.idle, b)
		return false
	}
	return true
}

// recycle makes blocks of limbo clean.
func (l *ledger) recycle(blocks []int32) {
	for _, b := range blocks {
		l.push(&l.clean, b)
	}
}

// publish makes b findable under its content. Where another block has that content
// already, that one stays the one to be found.
func (l *ledger) publish(b int32, content digest) {
	if _, taken := l.published[content]; taken {
		return
	}
	l.published[content] = b
	l.accounts[b].content = content
}

// withdraw undoes publish.
func (l *ledger) withdraw(b int32) {
	if a := &l.accounts[b]; a.content != (digest{}) {
		delete(l.published, a.content)
		a.content = digest{}
	}
}

// A queue is a list of free blocks, linked through their accounts.
type queue struct {
	first, last int32
	n           int
}

var empty = queue{first: none, last: none}

// push puts b at the end of q.
func (l *ledger) push(q *queue, b int32) {
	a := &l.accounts[b]
	a.prev, a.next = q.last, none
	if q.last == none {
		q.first = b
	} else {
		l.accounts[q.last].next = b
	}
	q.last = b
	q.n++
}

// remove takes b out of q.
func (l *ledger) remove(q *queue, b int32) {
	a := &l.accounts[b]
	if a.prev == none {
		q.first = a.next
	} else {
		l.accounts[a.prev].next = a.next
	}
	if a.next == none {
		q.last = a.prev
	} else {
		l.accounts[a.next].prev = a.prev
	}
	q.n--
}
