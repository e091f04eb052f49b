package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestFullOutput wants an answer that could not be written to be no success.
func TestFullOutput(t *testing.T) {
	log := "../../verify/testdata/live/gqa8-tp2"
	for _, args := range [][]string{
		{"plan", "llama-3-70b", "--tp", "8"},
		{"plan", "llama-3-70b", "--tp", "7"},
		{"plan", "llama-3-70b", "--tp", "4,8"},
		{"explain", "llama-3-70b"},
		{"compare", "llama-3-70b", "llama-3-8b"},
		{"verify", log + ".log", "--model", log + ".json"},
		{"models"}, {"gpus"}, {"version"}, {"--help"},
	} {
		var errs bytes.Buffer
		if got := Run(context.Background(), args, strings.NewReader(""), full{}, &errs); got != exitUnusable || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%q on a full disk: status %d, %q", args, got, errs.String())
		}
	}
}

func TestPlain(t *testing.T) {
	if got, want := plain("a\x1b[31mb\x07\u009b\x00\r\n\tü"), "a.[31mb....\n\tü"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
