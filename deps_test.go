package headcount_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that imports the library gets the standard library and golang.org/x/sys, and
// nothing else.
func TestLibraryDependencies(t *testing.T) {
	for _, pkg := range goList(t, "-f", "{{.ImportPath}}", "./...") {
		if program(pkg) {
			continue
		}
		for _, dep := range goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg) {
			if dep == "headcount" || strings.HasPrefix(dep, "headcount/") || strings.HasPrefix(dep, "golang.org/x/sys/") {
				continue
			}
			t.Errorf("%s depends on %s", pkg, dep)
		}
	}
}

// Imports point inward: from what shows a Report, over the Planner and the engines, to the
// model and its arithmetic. Neither engine knows the other, and attn knows no file.
func TestImportsPointInward(t *testing.T) {
	never := map[string][]string{
		"headcount/units":         {"headcount/"},
		"headcount/attn":          {"headcount/checkpoint", "headcount/model", "headcount/engine", "headcount/layout", "headcount/hw"},
		"headcount/checkpoint":    {"headcount/model", "headcount/engine", "headcount/layout", "headcount/hw"},
		"headcount/model":         {"headcount/layout", "headcount/engine", "headcount/weights", "headcount/hw", "headcount/vram"},
		"headcount/convert":       {"headcount/layout", "headcount/engine", "headcount/weights", "headcount/hw", "headcount/vram", "headcount/catalog"},
		"headcount/layout":        {"headcount/model", "headcount/engine"},
		"headcount/weights":       {"headcount/engine/vllm", "headcount/engine/sglang", "headcount/vram", "headcount/hw"},
		"headcount/engine/vllm":   {"headcount/engine/sglang", "headcount/vram", "headcount/catalog"},
		"headcount/engine/sglang": {"headcount/engine/vllm", "headcount/vram", "headcount/catalog"},
		"headcount/vram":          {"headcount/model", "headcount/engine"},
		"headcount":               {"headcount/internal/cli"},
	}
	for pkg, barred := range never {
		for _, dep := range goList(t, "-deps", "-f", "{{.ImportPath}}", pkg) {
			for _, b := range barred {
				if dep != pkg && (dep == b || strings.HasSuffix(b, "/") && strings.HasPrefix(dep, b)) {
					t.Errorf("%s depends on %s", pkg, dep)
				}
			}
		}
	}
}

// program reports whether pkg is one of ours that no other module can import or should.
func program(pkg string) bool {
	for _, prefix := range []string{"headcount/cmd/", "headcount/checkpoint/hub", "headcount/internal/chart", "headcount/internal/cli", "headcount/internal/handout", "headcount/internal/server", "headcount/internal/source", "headcount/tools/"} {
		if strings.HasPrefix(pkg, prefix) {
			return true
		}
	}
	return false
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, out)
	}
	return strings.Fields(string(out))
}
