package verify

import "strings"

// Kinds of refusals.
const (
	poolTooSmall = "pool_too_small" // one request of the maximum length does not fit
	noBlocks     = "no_blocks"      // nothing is left for the cache
	notDivisible = "not_divisible"  // a sharded dimension
	tooLong      = "too_long"       // a longer max_model_len than the model's
	unsupported  = "unsupported"    // no path for the combination
	failed       = "failed"         // another process' report of it, or a reason that is not known
)

// refusalWordings are how servers say that they do not start: exceptions, mostly.
var refusalWordings = []wording{
	{"To serve at least one request with the model", vllmName, tooSmall},
	{"No available memory for the cache blocks", vllmName, func(l *line) {
		l.refuse(Refusal{Kind: noBlocks, Message: "No available memory for the cache blocks" + l.after})
	}},
	{"The model's max seq len (", vllmName, func(l *line) { // V0, and its one way to say the tokens of the pool
		l.refuse(Refusal{Kind: poolTooSmall, Message: "The model's max seq len (" + l.after})
		if _, rest, ok := strings.Cut(l.after, "KV cache ("); ok {
			if n, _, ok := wholeNumber(rest); ok {
				l.set("tokens", n)
			}
		}
	}},
	{"Value error, ", vllmName, func(l *line) { l.exception(l.after) }},
	{" ValueError: ", vllmName, func(l *line) { l.exception(l.after) }},
	{" RuntimeError: ", vllmName, func(l *line) { l.exception(l.after) }},
	{" NotImplementedError: ", vllmName, func(l *line) { l.exception(l.after) }},
	{" AssertionError: ", vllmName, func(l *line) { l.exception(l.after) }},
	{"    assert ", vllmName, func(l *line) { l.exception("assert " + l.after) }},
	{"Engine core initialization failed", vllmName, func(l *line) {
		l.refuse(Refusal{Kind: failed, Message: "Engine core initialization failed" + l.after})
	}},
	{"Not enough memory. Please try to increase --mem-fraction-static", sglangName, func(l *line) {
		l.refuse(Refusal{Kind: noBlocks, Message: "Not enough memory. Please try to increase --mem-fraction-static" + l.after})
	}},
	{"CUDA out of memory. ", "", func(l *line) { l.refuse(Refusal{Kind: failed, Message: "CUDA out of memory. " + l.after}) }},
}

// exception keeps the text of an exception that ended a start. One that comes later ends a
// request, or the server.
func (l *line) exception(message string) {
	kind := unsupported
	if strings.HasPrefix(message, "assert ") {
		kind = failed // its message, if it has one, is in a line that follows
	}
	switch {
	case strings.Contains(message, "divisible by tensor parallel size"), strings.Contains(message, "% tp_size == 0"):
		kind = notDivisible
	case strings.Contains(message, "greater than the derived max_model_len"):
		kind = tooLong
	case strings.HasPrefix(message, "Engine core initialization failed"), strings.HasPrefix(message, "Worker failed with error"),
		strings.HasPrefix(message, "Cancelled"), strings.HasPrefix(message, "To serve at least"), strings.HasPrefix(message, "No available memory"),
		strings.HasPrefix(message, "The model's max seq len"):
		return // a wording of its own, or another process' word on it
	}
	o := l.start()
	if _, ready := o.Find("ready"); !ready {
		l.refuse(Refusal{Kind: kind, Message: message})
	} else if o.Fell == nil && kind != failed {
		o.Fell = l.because(Refusal{Kind: kind, Message: message})
	}
}

// tooSmall is vLLM's refusal of a pool that holds no request of the maximum length:
//
//	To serve at least one request with the model's max seq len (32768), (0.06 GiB KV cache is needed, which is larger than
//	the available KV cache memory (0.03 GiB). Based on the available memory, the estimated maximum model length is 16256.
func tooSmall(l *line) {
	r := Refusal{Kind: poolTooSmall, Message: "To serve at least one request with the model" + l.after}
	if n, rest, ok := wholeNumber(l.after); ok {
		l.option("max_model_len", n)
		if digits, rest, ok := numeral(rest); ok {
			r.Needed = sizeOf(digits)
			if digits, rest, ok := numeral(rest); ok {
				r.Available = sizeOf(digits)
				if _, rest, ok := strings.Cut(rest, "maximum model length is "); ok {
					if n, _, ok := wholeNumber(rest); ok {
						r.EstimatedMaxModelLen = &n
					}
				}
			}
		}
	}
	l.refuse(r)
}

func sizeOf(digits string) *Size {
	if s, ok := gibibytes(digits); ok {
		return &s
	}
	return nil
}
