package verify_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"headcount"
	"headcount/hw"
	"headcount/internal/shared"
	"headcount/verify"
)

// A publicRow is what one public thread printed of one start.
type publicRow struct {
	n      int // line of the file
	fields map[string]any
}

func (r publicRow) text(name string) string {
	s, _ := r.fields[name].(string)
	return s
}

// publicRows reads an engine's rows.
func publicRows(t *testing.T, engine string) []publicRow {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(shared.Dir(t), "logs", engine+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []publicRow
	for line := range bytes.Lines(data) {
		row := publicRow{n: len(rows) + 1}
		if err := json.Unmarshal(line, &row.fields); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// A models finds the config of a model as a thread names it.
type models struct {
	kin   map[string]string // testdata/models.tsv
	files map[string]string // hub id → file of the corpus
	dir   string
}

func knownModels(t *testing.T) *models {
	t.Helper()
	m := &models{kin: map[string]string{}, files: map[string]string{}, dir: filepath.Join(shared.Dir(t), "configs")}
	read := func(path string, add func(cells []string)) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if line := lines.Text(); !strings.HasPrefix(line, "#") {
				add(strings.Split(line, "\t"))
			}
		}
	}
	read("testdata/models.tsv", func(c []string) { m.kin[strings.ToLower(c[0])] = c[1] })
	read(filepath.Join(m.dir, "INDEX.tsv"), func(c []string) {
		if c[6] == "quant_side" || c[1] == "model_id" {
			return
		}
		for _, name := range []string{c[1], c[1][strings.IndexByte(c[1], '/')+1:]} {
			if _, taken := m.files[strings.ToLower(name)]; !taken {
				m.files[strings.ToLower(name)] = c[0]
			}
		}
	})
	return m
}

// request names the model of a thread; ok is false for one that is not known.
func (m *models) request(name string) (req headcount.Request, ok bool) {
	if kin, ok := m.kin[strings.ToLower(name)]; ok {
		name = kin
	}
	if file, ok := m.files[strings.ToLower(name)]; ok {
		data, err := os.ReadFile(filepath.Join(m.dir, file))
		if err == nil {
			req.Config = data
			if quant, err := os.ReadFile(filepath.Join(m.dir, strings.TrimSuffix(file, ".json")+".hf_quant.json")); err == nil {
				req.HFQuantConfig = quant
			}
			return req, true
		}
	}
	req.Model = name
	_, err := headcount.Plan(context.Background(), req)
	return req, err == nil
}

var _ = errors.Is

var (
	drafts     = regexp.MustCompile(`(?i)mtp[ =](\d)|mtp num_speculative_tokens=(\d)|mtp,? (\d) speculative tokens?`)
	overridden = regexp.MustCompile(`num_gpu_blocks_override=(\d+)`)
)

var gpuCount = regexp.MustCompile(`(?:^| )(?:x ?(\d+)|(\d+) ?x )`)

// observed rebuilds an Observation from a row of vLLM's.
func observed(r publicRow) *verify.Observation {
	o := &verify.Observation{Source: fmt.Sprintf("vllm.jsonl:%d", r.n), Engine: "vllm", Version: r.text("engine_version"), Started: true}
	o.Version, _, _ = strings.Cut(o.Version, " ")
	set := func(name string, v any) { o.Set(verify.Fact{Name: name, Value: v}) }
	for name, value := range r.fields {
		switch v := value.(type) {
		case float64:
			switch name {
			case "gpu_kv_cache_tokens":
				set("tokens", int64(v))
			case "num_gpu_blocks":
				set("num_blocks", int64(v))
			case "concurrency_tokens_per_request":
				set("max_model_len", int64(v))
			case "gpu_memory_utilization":
				set(name, v)
			case "model_load_gib":
				set("weights_bytes", verify.Size{Bytes: int64(v * (1 << 30)), Slack: 1 << 23})
			case "graph_capture_gib", "total_gpu_memory_gib", "peak_activation_gib", "non_torch_gib", "kv_needed_gib":
			case "block_size":
				set("aligned_or_given_block_size", int64(v))
			case "max_model_len":
				if _, ok := r.fields["concurrency_tokens_per_request"]; !ok {
					set(name, int64(v))
				}
			default:
				set(name, int64(v))
			}
		case bool:
			set(name, v)
		case string:
			switch name {
			case "available_kv_gib":
				if s, ok := verify.ParseGiB(v); ok {
					set("available_bytes", s)
				}
			case "max_concurrency":
				if x, err := strconv.ParseFloat(strings.TrimSuffix(v, "x"), 64); err == nil {
					set(name, x)
				}
			case "dtype":
				v = strings.TrimPrefix(v, "torch.")
				if v == "bf16" {
					v = "bfloat16"
				}
				set(name, v)
			case "kv_cache_dtype":
				v, _, _ = strings.Cut(strings.ToLower(v), " ")
				if v == "bf16" || v == "fp16" {
					v = "auto"
				}
				set(name, v)
			case "other_args":
				if m := drafts.FindStringSubmatch(v); m != nil {
					n, _ := strconv.ParseInt(m[1]+m[2]+m[3], 10, 64)
					set("speculative_method", "mtp")
					set("num_speculative_tokens", n)
				}
				if m := overridden.FindStringSubmatch(v); m != nil {
					n, _ := strconv.ParseInt(m[1], 10, 64)
					set("num_gpu_blocks_override", n)
				}
				for phrase, on := range map[string]bool{"enable_prefix_caching=False": false, "prefix caching off": false, "enable_prefix_caching=True": true, "prefix caching": true} {
					if strings.Contains(v, phrase) && (on == false || !strings.Contains(v, "enable_prefix_caching=False") && !strings.Contains(v, "prefix caching off")) {
						set("enable_prefix_caching", on)
					}
				}
			}
		}
	}
	tokens, _ := o.Int("tokens")
	if x, ok := o.Float("max_concurrency"); ok && tokens > 0 && x > 0 {
		if _, said := o.Find("max_model_len"); !said { // printed beside the two; the excerpt cut it off
			set("max_model_len", int64(math.Exp2(math.Round(math.Log2(float64(tokens)/x)))))
		}
	}
	gpu := r.text("gpu")
	if _, given := r.fields["tensor_parallel_size"]; !given {
		if m := gpuCount.FindStringSubmatch(gpu); m != nil {
			n, _ := strconv.ParseInt(m[1]+m[2], 10, 64)
			set("tensor_parallel_size", n)
		}
	}
	gpu = gpuCount.ReplaceAllString(gpu, "")
	for words := strings.Fields(gpu); len(words) > 0; words = words[:len(words)-1] {
		if a, err := hw.Lookup(strings.Join(words, " ")); err == nil {
			set("gpu", a.ID)
			break
		}
	}
	return o
}

func TestRowsVLLM(t *testing.T) {
	known := knownModels(t)
	v := verify.Verifier{Planner: &headcount.Planner{}}
	var checkable, exact, explained int
	for _, row := range publicRows(t, "vllm") {
		o := observed(row)
		req, ok := known.request(row.text("model"))
		_, pool := o.Find("available_bytes")
		_, blocks := o.Find("num_blocks")
		_, tokens := o.Find("tokens")
		_, conc := o.Find("max_concurrency")
		if !ok || !(pool || blocks) || !tokens && !(blocks && (pool || conc)) && !(pool && conc) {
			continue
		}
		checkable++
		r, err := v.Verify(context.Background(), o, req)
		if err != nil {
			t.Logf("%d %s: ERROR %v", row.n, row.text("model"), err)
			continue
		}
		state := "exact"
		line := ""
		for _, c := range r.Checks {
			if c.Name != "tokens" && c.Name != "max_concurrency" && c.Name != "num_blocks" || c.Agrees {
				continue
			}
			line += fmt.Sprintf(" %s: %v/%v", c.Name, c.Predicted, c.Observed)
			if c.Cause != nil && state != "miss" {
				state = "explained: " + *c.Cause
			} else {
				state = "miss"
			}
		}
		if r.Plan != nil && r.Plan.Error != nil {
			line += " PLAN: " + r.Plan.Error.Message
		}
		if len(r.Checks) == 0 {
			state = "miss"
		}
		switch {
		case state == "exact":
			exact++
		case state != "miss":
			explained++
		}
		if state != "exact" {
			t.Logf("%d %s %s v%s tp%v gpu%v: %s%s", row.n, state, row.text("model"), o.Version, o.All("tensor_parallel_size"), o.Text("gpu"), line, "")
		}
	}
	t.Logf("%d checkable, %d exact, %d explained", checkable, exact, explained)
}
