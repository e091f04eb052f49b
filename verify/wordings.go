package verify

import (
	"slices"
	"sync"
)

// wordings are all that are looked for. Their table is made when a first log is read: other
// commands need none.
var wordings = sync.OnceValue(func() *automaton {
	return newAutomaton(slices.Concat(vllmWordings, refusalWordings, sglangWordings, llamaWordings, trtllmWordings))
})
