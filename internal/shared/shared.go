// Package shared finds the corpus that tests measure against: real configs, the engines'
// golden rows, public cases. A clone alone does not have it, and its tests skip.
package shared

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Dir is the corpus' folder: HEADCOUNT_SHARED, else ../shared beside the repository. When
// it is not there the test skips, or fails if HEADCOUNT_REQUIRE lists "shared".
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("HEADCOUNT_SHARED")
	if dir == "" {
		dir = filepath.Join(filepath.Dir(Root()), "shared")
	}
	if _, err := os.Stat(filepath.Join(dir, "golden")); err != nil {
		Skip(t, "shared", "no corpus at "+dir+" (set HEADCOUNT_SHARED)")
	}
	return dir
}

// Skip skips the test for want of part, or fails it if HEADCOUNT_REQUIRE lists the part.
func Skip(t testing.TB, part, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("HEADCOUNT_REQUIRE"), ","), part) {
		t.Fatalf("%s is required: %s", part, why)
	}
	t.Skip(why)
}

// Root is the repository's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}
