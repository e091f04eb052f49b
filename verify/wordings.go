package verify

import "slices"

// wordings are all that are looked for.
var wordings = newAutomaton(slices.Concat(vllmWordings, refusalWordings, sglangWordings, llamaWordings, trtllmWordings))
