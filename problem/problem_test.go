package problem_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"headcount/problem"
)

func ExampleNew() {
	err := problem.New(problem.NotDivisible, "num_attention_heads", 28, "not divisible by tensor parallel size %d", 8).
		WithHint("legal tensor parallel sizes: 1, 2, 4").By("vllm")
	fmt.Println(err)
	fmt.Println(err.Hint)
	// Output:
	// num_attention_heads = 28: not divisible by tensor parallel size 8
	// legal tensor parallel sizes: 1, 2, 4
}

// A key or a value from a hostile file must not break the line or flood it.
func TestNewKeepsToOneShortLine(t *testing.T) {
	for _, text := range []string{"a\nb\r\x1b[31m", strings.Repeat("x", 1<<20), strings.Repeat("ä", 500)} {
		for _, err := range []*problem.Error{problem.New(problem.BadValue, "f", text, "bad"), problem.New(problem.BadValue, text, nil, "bad")} {
			if strings.ContainsAny(err.Message+err.Field, "\n\r\x1b") || len(err.Message) > 120 || len(err.Field) > 120 {
				t.Errorf("message of %.10q is %q", text, err)
			}
		}
	}
}

func TestNewWithoutFieldOrValue(t *testing.T) {
	for want, err := range map[string]error{
		"no model given":     problem.New(problem.MissingField, "", nil, "no model given"),
		"model: not a name":  problem.New(problem.BadValue, "model", nil, "not a name"),
		"tp = 0: too small":  problem.New(problem.BadValue, "tp", 0, "too small"),
		"x = <nil>: is null": problem.New(problem.BadValue, "x", fmt.Sprint(nil), "is null"),
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		if _, ok := errors.AsType[*problem.Error](err); !ok {
			t.Errorf("%q is not a problem", err)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"llama-3-8b", "llama-3-70b", "qwen3-32b", "deepseek-v3"}
	for _, tt := range []struct {
		name string
		want []string
	}{
		{"llama-3-70", []string{"llama-3-70b", "llama-3-8b"}},
		{"LLAMA-3-70B", []string{"llama-3-70b", "llama-3-8b"}},
		{"deepsek-v3", []string{"deepseek-v3"}},
		{"deep", []string{"deepseek-v3"}},
		{"nothing like it", []string{}},
		{strings.Repeat("z", 1<<16), []string{}},
	} {
		if got := problem.Nearest(tt.name, names, 2); !slices.Equal(got, tt.want) {
			t.Errorf("Nearest(%.20q) = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"h100", "h100", 0}, {"h100", "h200", 1}, {"h100", "a10", 2}, {"mi300", "mi300x", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}} {
		if got := problem.Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
