package difftest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headcount/internal/scorecard"
	"headcount/internal/shared"
)

// TestReplay holds our plans to the committed rows: draws that the engines answered.
func TestReplay(t *testing.T) {
	dir := filepath.Join(shared.Root(), "testdata", "difftest")
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no rows in %s: %v", dir, err)
	}
	card := scorecard.New()
	for _, name := range files {
		err := Rows(name, func(line []byte) error {
			_, err := Judge(card, line)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	card.Judge(t, filepath.Join(dir, "misses.txt"))
}

// TestFresh asks the engine that HEADCOUNT_DIFF names about new draws, with the Python of
// HEADCOUNT_PYTHON. HEADCOUNT_DIFF_SEED and HEADCOUNT_DIFF_DRAWS say which and how many.
func TestFresh(t *testing.T) {
	engine := os.Getenv("HEADCOUNT_DIFF")
	if engine == "" {
		t.Skip("HEADCOUNT_DIFF is not set to vllm or sglang")
	}
	python := os.Getenv("HEADCOUNT_PYTHON")
	if python == "" {
		shared.Skip(t, engine, "HEADCOUNT_PYTHON names no Python that has "+engine)
	}
	dir := shared.Dir(t)
	generator, err := NewGenerator(engine, dir)
	if err != nil {
		t.Fatal(err)
	}
	seed, draws := number(t, "HEADCOUNT_DIFF_SEED", 1000), number(t, "HEADCOUNT_DIFF_DRAWS", 50)
	oracle, err := Start(python, dir, engine, "H100")
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Stop()
	card := scorecard.New()
	for n := range draws {
		d, err := generator.Draw("H100", seed, n)
		if err != nil {
			t.Fatal(err)
		}
		row, err := oracle.Ask(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Judge(card, row); err != nil {
			t.Errorf("%s: %v", d.ID, err)
		}
	}
	t.Log(card)
	for _, m := range card.Misses() {
		t.Errorf("%s: %s: %s", m.Row, m.Field, m.Detail)
	}
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// A draw is a function of engine, GPU, seed and number, and no two are one.
func TestDrawIsSeeded(t *testing.T) {
	dir := shared.Dir(t)
	for _, engine := range []string{"vllm", "sglang"} {
		g, err := NewGenerator(engine, dir)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for n := range uint64(50) {
			first, second := drawn(t, g, n), drawn(t, g, n)
			if !bytes.Equal(first, second) {
				t.Fatalf("%s %d: %s, then %s", engine, n, first, second)
			}
			seen[string(first)] = true
		}
		if len(seen) != 50 {
			t.Errorf("%s: 50 draws, %d different", engine, len(seen))
		}
	}
}

// A given field is one that the file lacked, beside the depth and what follows from it.
func TestGivenFields(t *testing.T) {
	g, err := NewBases("vllm", filepath.Join(shared.Root(), "testdata", "difftest", "bases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{}
	for n := range uint64(400) {
		d, err := g.Given("H100", 7, n)
		if err != nil {
			t.Fatal(err)
		}
		was := g.base(d.File)
		text, now := decoderOf(was), decoderOf(object(t, d.Config))
		more := 0
		for key, value := range now {
			if _, foreigner := foreign[key]; foreigner && text[key] == nil && value != nil && !(key == "sliding_window" && text["layer_types"] == nil && now["layer_types"] != nil) {
				given[key] = true
				more++
			}
		}
		if more != 1 {
			t.Errorf("%s of %s: %d fields more", d.ID, d.File, more)
		}
	}
	if len(given) < len(foreign)-2 {
		t.Errorf("%d of %d fields are ever given", len(given), len(foreign))
	}
}

func object(t *testing.T, config []byte) map[string]any {
	o, err := decoded(config)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// base is the config of a file, nil where there is none.
func (g *Generator) base(file string) map[string]any {
	for _, files := range g.types {
		if files[0].file == file {
			o, _ := decoded(files[0].config)
			return o
		}
	}
	return nil
}

func drawn(t *testing.T, g *Generator, n uint64) []byte {
	d, err := g.Draw("H100", 7, n)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Lists of one element a layer and lists of layer numbers follow the number of layers.
func TestLayersCutLists(t *testing.T) {
	config := `{"num_hidden_layers": 48, "layer_types": [` + strings.TrimSuffix(strings.Repeat(`"a",`, 48), ",") +
		`], "attn_layer_indices": [1, 9, 20], "linear_attn_config": {"kda_layers": [1, 2, 40]}}`
	for seed := range uint64(20) {
		text, _, err := mutated(seeded(seed, 0), []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Layers  int      `json:"num_hidden_layers"`
			Types   []string `json:"layer_types"`
			Indices []int    `json:"attn_layer_indices"`
			Linear  struct {
				KDA []int `json:"kda_layers"`
			} `json:"linear_attn_config"`
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if got.Layers == 48 || got.Types == nil || got.Indices == nil {
			continue // not mutated, or a field left out
		}
		if len(got.Types) != got.Layers || slices.Max(append(got.Indices, 0)) >= got.Layers || slices.Max(append(got.Linear.KDA, 0)) > got.Layers {
			t.Errorf("seed %d: %s", seed, text)
		}
	}
}
