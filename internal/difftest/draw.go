// Package difftest draws configs and layouts at random, asks the engines themselves what
// they make of them, and holds our plans to the answers. Drawing needs the engines'
// packages and their oracles; rows that were drawn before replay without.
package difftest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headcount/internal/golden"
	"headcount/internal/strict"
)

// A Draw is one question to one engine, the whole of it a function of the seed.
type Draw struct {
	ID      string          `json:"id"` // engine/GPU/seed/number
	File    string          `json:"file"`
	GPU     string          `json:"gpu"`
	Config  json.RawMessage `json:"config"`
	HFQuant json.RawMessage `json:"hf_quant_config,omitempty"`
	Draft   json.RawMessage `json:"draft_config,omitempty"` // of a draft model (SGLang)
	Layout  any             `json:"layout"`                 // golden.SGLangLayout or golden.VLLMLayout

	Available []int64 `json:"available,omitempty"` // pool bytes of each rank, one plan each (vLLM)
}

// A Generator draws for one engine from the corpus' configs.
type Generator struct {
	engine string
	types  [][]base // files by model type, those first that the engine serves
	served int
	drafts []base // of draft models
}

// A base is a config of the corpus that draws begin with.
type base struct {
	file            string
	config, hfQuant []byte
}

// NewGenerator reads the corpus in dir. Model types of which the engine's golden rows have
// an answer are drawn most of the time, others now and then for their refusals.
func NewGenerator(engine, dir string) (*Generator, error) {
	index, err := os.Open(filepath.Join(dir, "configs", "INDEX.tsv"))
	if err != nil {
		return nil, err
	}
	defer index.Close()
	alive, err := answered(engine)
	if err != nil {
		return nil, err
	}
	g := &Generator{engine: engine}
	byType := map[string][]base{}
	served := map[string]bool{}
	lines := bufio.NewScanner(index)
	for lines.Scan() {
		cells := strings.Split(lines.Text(), "\t")
		if len(cells) < 7 || cells[0] == "file" || cells[6] == "quant_side" {
			continue
		}
		b, err := readBase(dir, cells[0])
		if err != nil {
			return nil, err
		}
		if cells[6] == "draft" {
			g.drafts = append(g.drafts, b)
		}
		kind := cells[2] + " " + cells[3]
		byType[kind] = append(byType[kind], b)
		served[kind] = served[kind] || alive[cells[0]]
	}
	for _, want := range []bool{true, false} {
		for _, kind := range sortedKeys(byType) {
			if served[kind] == want {
				g.types = append(g.types, byType[kind])
			}
		}
		if want {
			g.served = len(g.types)
		}
	}
	return g, lines.Err()
}

// NewBases is a Generator of configs that the corpus lacks: those of a file of JSON lines,
// each with a file's name and its config.
func NewBases(engine, file string) (*Generator, error) {
	g := &Generator{engine: engine}
	err := Rows(file, func(line []byte) error {
		var one struct {
			File   string
			Config json.RawMessage
		}
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		g.types = append(g.types, []base{{file: one.File, config: bytes.Clone(one.Config)}})
		return nil
	})
	g.served = len(g.types)
	return g, err
}

func readBase(dir, file string) (b base, err error) {
	b.file = file
	name := filepath.Join(dir, "configs", file)
	if b.config, err = os.ReadFile(name); err != nil {
		return b, err
	}
	b.hfQuant, err = os.ReadFile(strings.TrimSuffix(name, ".json") + ".hf_quant.json")
	if os.IsNotExist(err) {
		err = nil
	}
	return b, err
}

// answered lists the files of which an engine's golden rows have an answer.
func answered(engine string) (map[string]bool, error) {
	alive := map[string]bool{}
	if engine == "sglang" {
		for row, err := range golden.SGLang() {
			if err != nil {
				return nil, err
			}
			alive[row.File] = alive[row.File] || row.Error == nil
		}
		return alive, nil
	}
	for row, err := range golden.VLLM() {
		if err != nil {
			return nil, err
		}
		alive[row.File] = alive[row.File] || row.Error == nil
	}
	return alive, nil
}

// Draw gives draw n of a seed for a kind of GPU.
func (g *Generator) Draw(gpu string, seed, n uint64) (*Draw, error) {
	r := g.source(gpu, seed, n)
	types := g.types[:g.served]
	if r.one(20) && g.served < len(g.types) {
		types = g.types[g.served:]
	}
	files := types[r.IntN(len(types))]
	b := files[r.IntN(len(files))]
	config, facts, err := mutated(r, b.config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.file, err)
	}
	d := &Draw{ID: fmt.Sprintf("%s/%s/%d/%d", g.engine, gpu, seed, n), File: b.file, GPU: gpu, Config: config, HFQuant: b.hfQuant}
	if g.engine == "sglang" {
		l := sglangLayout(r, gpu, facts)
		g.draft(r, d, &l, 12)
		d.Layout = l
		return d, nil
	}
	d.Layout = vllmLayout(r, facts)
	d.Available = []int64{int64(r.logUniform(1<<24, 1<<32)), int64(r.logUniform(1<<32, 1<<37)), 777_777_777_777}
	return d, nil
}

// Corpus gives draw n of a seed with a config as it is and a layout of the golden rows'.
func (g *Generator) Corpus(gpu string, seed, n uint64) (*Draw, error) {
	return g.onGolden("", gpu, seed, n, func(random, map[string]any) {})
}

// onGolden gives a draw whose config is changed, on a layout of the golden rows'. Its ID has the
// kind of change before the seed.
func (g *Generator) onGolden(kind, gpu string, seed, n uint64, change func(random, map[string]any)) (*Draw, error) {
	r := g.source(gpu, seed, n)
	files := g.types[r.IntN(g.served)]
	b := files[r.IntN(len(files))]
	top, err := decoded(b.config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.file, err)
	}
	change(r, top)
	var f facts
	f.read(top)
	config, err := json.Marshal(top)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.file, err)
	}
	d := &Draw{ID: fmt.Sprintf("%s/%s/%s%d/%d", g.engine, gpu, kind, seed, n), File: b.file, GPU: gpu, Config: config, HFQuant: b.hfQuant}
	if g.engine == "sglang" {
		l := goldenSGLang(r, gpu)
		g.draft(r, d, &l, 4)
		d.Layout = l
		return d, nil
	}
	d.Layout = goldenVLLM(r, f)
	d.Available = []int64{12_345_678_901, 40 << 30, 777_777_777_777}
	return d, nil
}

// draft gives one draw in so many a draft model and its kind of drafting.
func (g *Generator) draft(r random, d *Draw, l *golden.SGLangLayout, one int) {
	if len(g.drafts) == 0 || !r.one(one) || l.PP > 1 {
		return
	}
	b := g.drafts[r.IntN(len(g.drafts))]
	d.Draft, l.DraftID = strict.WithNumbers(b.config), strings.TrimSuffix(b.file, ".json")
	switch {
	case strings.Contains(b.file, "dflash"), strings.Contains(b.file, "dspark"):
		l.SpeculativeAlgorithm, l.SpeculativeSteps, l.SpeculativeTopK, l.SpeculativeTokens = "DFLASH", 0, 0, 0
		if strings.Contains(b.file, "dspark") {
			l.SpeculativeAlgorithm = "DSPARK"
		}
	default:
		l.SpeculativeAlgorithm, l.SpeculativeSteps, l.SpeculativeTopK, l.SpeculativeTokens = pick(r, "EAGLE3", "EAGLE3", "EAGLE", "STANDALONE"), 3, 1, 4
	}
}

// source is the randomness of one draw.
func (g *Generator) source(gpu string, seed, n uint64) random {
	h := fnv.New64a()
	fmt.Fprint(h, g.engine, gpu, n)
	return seeded(seed, h.Sum64())
}

// sortedKeys are a map's keys in order, so that a draw depends on its seed alone.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
