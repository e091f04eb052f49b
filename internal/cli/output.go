package cli

import (
	"io"
	"strings"
	"unicode"
)

// An output is standard output that remembers the first write that failed: an answer that
// nobody got is no success.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// plain is text with a dot for every control character but line ends and tabs. Names and
// messages of files and logs go through it, so that none of them steers the terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '.'
		}
		return r
	}, text)
}
