// Command dummy makes a checkpoint of random numbers from a config.json: something to try
// commands on that read or convert weights.
//
//	go run ./tools/dummy config.json Tiny
package main

import (
	"flag"
	"fmt"
	"os"

	"headcount/internal/dummy"
)

func main() {
	format := flag.String("dtype", "BF16", "of the tensors: BF16, F16 or F32")
	shards := flag.Int("shards", 1, "safetensors files")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: dummy [-dtype BF16] [-shards 1] CONFIG FOLDER")
		os.Exit(2)
	}
	if err := dummy.Write(flag.Arg(1), flag.Arg(0), *format, *shards); err != nil {
		fmt.Fprintln(os.Stderr, "dummy:", err)
		os.Exit(1)
	}
}
