// Command cmd draws configs and layouts, asks an engine, and prints where our plan differs;
// or holds rows that were drawn before to our plans.
//
//	go run ./internal/difftest/cmd -engine sglang -gpu H100 -seed 1 -n 500 -python PYTHON [-out rows.jsonl]
//	go run ./internal/difftest/cmd rows.jsonl...
//	go run ./internal/difftest/cmd -keep testdata/difftest/sglang.jsonl.gz rows.jsonl...
package main

import (
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"headcount/internal/difftest"
	"headcount/internal/scorecard"
)

func main() {
	var ask asking
	flag.StringVar(&ask.engine, "engine", "sglang", "vllm or sglang")
	flag.StringVar(&ask.gpu, "gpu", "H100", "kind of GPU")
	flag.Uint64Var(&ask.seed, "seed", 1, "seed of the draws")
	flag.Uint64Var(&ask.first, "first", 0, "number of the first draw")
	flag.Uint64Var(&ask.n, "n", 50, "draws")
	flag.StringVar(&ask.python, "python", os.Getenv("HEADCOUNT_PYTHON"), "Python that has the engine")
	flag.StringVar(&ask.dir, "shared", "../shared", "corpus and oracles")
	flag.BoolVar(&ask.corpus, "corpus", false, "configs as they are, on the golden rows' layouts")
	flag.BoolVar(&ask.given, "given", false, "the same with one field given that the config lacks")
	flag.StringVar(&ask.bases, "bases", "", "file of configs to draw from instead of the corpus")
	flag.StringVar(&ask.out, "out", "", "file that rows are appended to")
	keep := flag.String("keep", "", "file to write the rows of files to that agree, compact")
	flag.Parse()
	card := scorecard.New()
	var err error
	switch {
	case *keep != "":
		err = compact(*keep, flag.Args())
	case flag.NArg() > 0:
		err = replay(card, flag.Args())
	default:
		err = ask.draw(card)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "difftest:", err)
		os.Exit(1)
	}
	fmt.Print(card)
}

// An asking is which draws are put to which engine, and where the rows go.
type asking struct {
	engine, gpu, python, dir, bases, out string
	seed, first, n                       uint64
	corpus, given                        bool
}

// generator is what draws.
func (a *asking) generator() (*difftest.Generator, error) {
	if a.bases != "" {
		return difftest.NewBases(a.engine, a.bases)
	}
	return difftest.NewGenerator(a.engine, a.dir)
}

// draw asks the engine one draw after the other.
func (a *asking) draw(card *scorecard.Card) error {
	generator, err := a.generator()
	if err != nil {
		return err
	}
	rows := io.Discard
	if a.out != "" {
		f, err := os.OpenFile(a.out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		rows = f
	}
	oracle, err := difftest.Start(a.python, a.dir, a.engine, a.gpu)
	if err != nil {
		return err
	}
	defer oracle.Stop()
	next := generator.Draw
	switch {
	case a.given:
		next = generator.Given
	case a.corpus:
		next = generator.Corpus
	}
	for i := a.first; i < a.first+a.n; i++ {
		d, err := next(a.gpu, a.seed, i)
		if err != nil {
			return err
		}
		row, err := oracle.Ask(d)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(rows, "%s\n", row); err != nil {
			return err
		}
		if err := judge(card, row); err != nil {
			return err
		}
	}
	return nil
}

// replay judges rows of files.
func replay(card *scorecard.Card, files []string) error {
	for _, name := range files {
		if err := difftest.Rows(name, func(line []byte) error { return judge(card, line) }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// compact writes the rows of files that agree.
func compact(out string, files []string) error {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, name := range files {
		err := difftest.Rows(name, func(line []byte) error {
			row, ok, err := difftest.Compact(context.Background(), line)
			if ok {
				_, err = z.Write(append(row, '\n'))
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

// judge prints what differs in a row.
func judge(card *scorecard.Card, row []byte) error {
	misses, err := difftest.Judge(card, row)
	for _, m := range misses {
		fmt.Printf("%s\t%s\t%s\n", m.Row, m.Field, m.Detail)
	}
	return err
}
