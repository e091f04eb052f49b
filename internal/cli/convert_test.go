package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headcount"
	"headcount/internal/dummy"
)

// smallMHA writes a checkpoint of four KV heads.
func smallMHA(t *testing.T) string {
	t.Helper()
	folder, err := dummy.Checkpoint{DType: "BF16", Config: `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
		"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128, "intermediate_size": 96, "torch_dtype": "bfloat16"}`}.Folder()
	if err != nil {
		t.Fatal(err)
	}
	in := filepath.Join(t.TempDir(), "small")
	if err := os.CopyFS(in, folder); err != nil {
		t.Fatal(err)
	}
	return in
}

// TestConvertStatus holds the exit status, and that what is refused leaves nothing behind.
func TestConvertStatus(t *testing.T) {
	in := smallMHA(t)
	beside := func(name string) string { return filepath.Join(filepath.Dir(in), name) }
	if err := os.Mkdir(beside("taken"), 0o777); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadDir(filepath.Dir(in))
	for _, tt := range []struct {
		args   []string
		status int
		says   string // in either output
	}{
		{[]string{in, beside("dry"), "--kv-heads", "2", "--dry-run"}, 0, "4 KV heads → 2, 2 into one by their mean"},
		{[]string{in, beside("dry"), "--kv-heads", "2", "--dry-run", "--report"}, 0, "Mean cosine of the 2 heads"},
		{[]string{in, beside("taken"), "--kv-heads", "2"}, 2, "nothing is overwritten"},
		{[]string{in, filepath.Join(in, "within"), "--kv-heads", "2"}, 2, "inside the folder that is read"},
		{[]string{in, in, "--kv-heads", "2"}, 2, "nothing is overwritten"},
		{[]string{in, beside("out"), "--kv-heads", "3"}, 2, "hint"},
		{[]string{in, beside("out")}, 2, "hint"},
		{[]string{in, beside("out"), "--kv-heads", "2", "--method", "median"}, 2, "median"},
		{[]string{beside("none"), beside("out"), "--kv-heads", "2"}, 2, "no such file or folder"},
		{[]string{in, beside("out"), "--kv-heads", "2", "--tp", "1,2"}, 2, "convert takes one"},
	} {
		status, stdout, stderr := run(append([]string{"convert"}, tt.args...)...)
		if status != tt.status || !strings.Contains(stdout+stderr, tt.says) {
			t.Errorf("%q: status %d, want %d and %q\n%s%s", tt.args, status, tt.status, tt.says, stdout, stderr)
		}
	}
	after, _ := os.ReadDir(filepath.Dir(in))
	if len(after) != len(before) {
		t.Errorf("%d folders became %d", len(before), len(after))
	}
}

// What convert says of OUT is what plan says of it.
func TestConvertThenPlan(t *testing.T) {
	in := smallMHA(t)
	out := in + "-mqa"
	status, stdout, stderr := run("convert", in, out, "--kv-heads", "1", "--json", "--kv-cache-memory", "1MiB")
	if status != 0 {
		t.Fatal(stderr)
	}
	var said struct{ Before, After headcount.Report }
	if err := json.Unmarshal([]byte(stdout), &said); err != nil {
		t.Fatal(err)
	}
	_, planned, _ := run("plan", out, "--json", "--kv-cache-memory", "1MiB")
	var plan headcount.Report
	if err := json.Unmarshal([]byte(planned), &plan); err != nil {
		t.Fatal(err)
	}
	if a, b, p := said.Before.Ranks[0].BytesPerToken, said.After.Ranks[0].BytesPerToken, plan.Ranks[0].BytesPerToken; a != 4*b || b != p {
		t.Errorf("%d bytes a token become %d, and plan says %d", a, b, p)
	}
	if strings.Join(said.After.Log, "") != strings.Join(plan.Log, "") || len(plan.Log) == 0 {
		t.Errorf("the log is to say %q, and by plan %q", said.After.Log, plan.Log)
	}
}
