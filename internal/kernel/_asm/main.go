// Command asm writes the assembly of package kernel and its declarations:
//
//	go run . -out ../kernel_amd64.s -stubs ../stubs_amd64.go -pkg kernel
//
// It is a module of its own, so that nobody who uses headcount needs avo.
package main

import (
	"flag"
	"os"

	"github.com/mmcloughlin/avo/build"
)

func main() {
	out := flag.Lookup("out").Value // avo's own flags
	build.ConstraintExpr("amd64,!purego")
	pairs()
	floats()
	softmax()
	unpack()
	probe()
	dots()
	halves()
	build.Generate()
	file := out.String()
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, encode(text), 0o644)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}
