package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
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
	"headcount/internal/scorecard"
	"headcount/internal/shared"
	"headcount/verify"
)

// A publicRow is what one public thread printed of one start, as fields.
type publicRow map[string]any

func (r publicRow) text(name string) string {
	s, _ := r[name].(string)
	return s
}

func (r publicRow) number(name string) float64 {
	x, _ := r[name].(float64)
	return x
}

// others are the lines that no field holds.
func (r publicRow) others() string { return fmt.Sprint(r["other_lines"], r["other_args"]) }

// A retelling makes an Observation of a row, or says why it does not say enough.
type retelling func(publicRow, *headcount.Request) (o *verify.Observation, lacking string)

// TestPublicRows verifies what public threads printed of starts that headcount never saw.
// Of the rows that say enough, 95 % are predicted to the last token and byte that their
// rounding lets see, or a cause closes the difference; the others are listed.
func TestPublicRows(t *testing.T) {
	for _, engine := range []struct {
		name string
		tell retelling
	}{{"vllm", tellVLLM}, {"sglang", tellSGLang}, {"llamacpp", tellLlama}, {"trtllm", tellTRT}} {
		t.Run(engine.name, func(t *testing.T) {
			known := knownModels(t)
			card := scorecard.New()
			var exact, explained int
			for n, row := range publicRows(t, engine.name) {
				r := card.Row(fmt.Sprintf("%s:%d", engine.name, n+1), engine.name)
				switch state := judge(t, row, known, engine.tell, r); state {
				case "exact":
					exact++
				case "explained":
					explained++
				case "":
					continue
				}
				r.Done()
			}
			checkable := card.Rows()
			t.Logf("%s: %d rows say enough: %d exact, %d explained, %d not explained", engine.name, checkable, exact, explained, checkable-exact-explained)
			if engine.name == "vllm" || engine.name == "sglang" {
				if 100*(exact+explained) < 95*checkable {
					t.Errorf("%d of %d exact or explained, want 95 %%", exact+explained, checkable)
				}
			}
			card.Judge(t, "testdata/misses_"+engine.name+".txt")
		})
	}
}

// judge verifies one row: "exact", "explained" or "missed", "" for one that does not say
// enough.
func judge(t *testing.T, row publicRow, known *models, tell retelling, card *scorecard.Row) string {
	req, lacking := known.request(row.text("model"))
	o, more := tell(row, &req)
	o.Source = row.text("model")
	if lacking == "" || strings.HasPrefix(more, "its own widths") {
		lacking = strings.TrimPrefix(more, "its own widths")
	}
	if lacking != "" {
		card.Unknown("row", lacking)
		return ""
	}
	v := verify.Verifier{Planner: &headcount.Planner{}}
	r, err := v.Verify(context.Background(), o, req)
	if err != nil {
		card.Check("planned", err, "a plan")
		return "missed"
	}
	state := "exact"
	checked := 0
	for _, c := range r.Checks {
		if c.Estimate {
			continue
		}
		checked++
		switch {
		case c.Agrees:
		case c.Cause != nil:
			if state == "exact" {
				state = "explained"
			}
			t.Logf("%s: %s: predicted %v, printed %v: %s", o.Source, c.Name, c.Predicted, c.Observed, *c.Cause)
		default:
			card.Check(c.Name, c.Observed, c.Predicted)
			state = "missed"
		}
	}
	if checked == 0 {
		card.Unknown("row", "nothing of it can be checked")
		return ""
	}
	return state
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
		var row publicRow
		if err := json.Unmarshal(line, &row); err != nil {
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
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if !strings.HasPrefix(line, "#") {
				add(strings.Split(strings.TrimRight(line, "\n"), "\t"))
			}
		}
	}
	read("testdata/models.tsv", func(c []string) { m.kin[strings.ToLower(c[0])] = c[1] })
	read(filepath.Join(m.dir, "INDEX.tsv"), func(c []string) {
		if c[6] == "quant_side" || c[0] == "file" {
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

// request names the model of a thread.
func (m *models) request(name string) (req headcount.Request, lacking string) {
	if name == "" {
		return req, "no model is named"
	}
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
			return req, ""
		}
	}
	req.Model = name
	if _, err := headcount.Plan(context.Background(), req); err != nil {
		return headcount.Request{}, "the model's config is not at hand"
	}
	return req, ""
}

// A teller fills an Observation.
type teller struct{ *verify.Observation }

func tells(engine, version string) teller {
	version, _, _ = strings.Cut(version, " ")
	return teller{&verify.Observation{Source: engine, Engine: engine, Version: version, Started: true}}
}

func (o teller) set(name string, v any) { o.Set(verify.Fact{Name: name, Value: v}) }

// whole copies a whole number under another name, if the row has it.
func (o teller) whole(r publicRow, from, to string) {
	if x, ok := r[from].(float64); ok {
		o.set(to, int64(x))
	}
}

// gib copies a number of GiB, printed to a hundredth.
func (o teller) gib(r publicRow, from, to string) {
	if x, ok := r[from].(float64); ok {
		o.set(to, verify.Size{Bytes: int64(x * (1 << 30)), Slack: 1 << 30 / 200})
	}
}

// mib copies a number of MiB, printed to a hundredth.
func (o teller) mib(r publicRow, from, to string) {
	if x, ok := r[from].(float64); ok {
		o.set(to, verify.Size{Bytes: int64(x * (1 << 20)), Slack: 1 << 20 / 200})
	}
}

// dtypes are how threads write what engines call otherwise.
var dtypes = map[string]string{"bf16": "bfloat16", "fp16": "float16", "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "float4_e2m1fn_x2": "fp4_e2m1"}

func dtype(text string) string {
	text, _, _ = strings.Cut(strings.ToLower(strings.TrimPrefix(text, "torch.")), " ")
	if name, ok := dtypes[text]; ok {
		return name
	}
	return text
}

var (
	drafts     = regexp.MustCompile(`(?i)mtp[ =](\d)|mtp num_speculative_tokens=(\d)|mtp,? (\d) speculative tokens?`)
	overridden = regexp.MustCompile(`num_gpu_blocks_override=(\d+)`)
	gpuCount   = regexp.MustCompile(`(?:^| )(?:x ?(\d+)|(\d+) ?x )`)
	otherBuild = regexp.MustCompile(`(?i)^0\.1\.dev|glmkimi|plugin|rocm|ascend|metax|\bnpu\b|tenstorrent|volta|lvllm|\bxpu\b|rbln|arc pro|exl3|fork|b12x`)
	otherDraft = regexp.MustCompile(`(?i)dflash|eagle|dspark|external mtp`)
)

func firstOf(m []string) int64 {
	n, _ := strconv.ParseInt(strings.Join(m[1:], ""), 10, 64)
	return n
}

// device names the accelerator and, where no layout is given, takes its number for it.
func (o teller) device(gpu string, laidOut bool) {
	if m := gpuCount.FindStringSubmatch(gpu); m != nil && !laidOut {
		o.set("tensor_parallel_size", firstOf(m))
	}
	gpu = gpuCount.ReplaceAllString(gpu, "")
	for words := strings.Fields(gpu); len(words) > 0; words = words[:len(words)-1] {
		if a, err := hw.Lookup(strings.Join(words, " ")); err == nil {
			o.set("gpu", a.ID)
			return
		}
	}
}

// tellVLLM retells a row of vLLM's.
func tellVLLM(r publicRow, req *headcount.Request) (*verify.Observation, string) {
	o := tells("vllm", r.text("engine_version"))
	for _, name := range []string{"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size",
		"max_model_len", "max_num_seqs", "max_num_batched_tokens"} {
		o.whole(r, name, name)
	}
	o.whole(r, "concurrency_tokens_per_request", "max_model_len")
	o.whole(r, "gpu_kv_cache_tokens", "tokens")
	o.whole(r, "num_gpu_blocks", "num_blocks")
	if x := r.number("gpu_memory_utilization"); x > 0 {
		o.set("gpu_memory_utilization", x)
	}
	if s, ok := verify.ParseGiB(r.text("available_kv_gib")); ok {
		rank := ""
		if r.number("pipeline_parallel_size") > 1 {
			rank = "PP0" // the row has one figure, and stages have one each
		}
		o.Set(verify.Fact{Name: "available_bytes", Rank: rank, Value: s})
	}
	if x, err := strconv.ParseFloat(strings.TrimSuffix(r.text("max_concurrency"), "x"), 64); err == nil {
		o.set("max_concurrency", x)
	}
	if s := r.text("dtype"); s != "" {
		o.set("dtype", dtype(s))
	}
	if s := dtype(r.text("kv_cache_dtype")); s != "" {
		if s == "float16" {
			s = "auto"
		}
		o.set("kv_cache_dtype", s)
	}
	if m := drafts.FindStringSubmatch(r.others()); m != nil {
		o.set("speculative_method", "mtp")
		o.set("num_speculative_tokens", firstOf(m))
	}
	if m := overridden.FindStringSubmatch(r.others()); m != nil {
		o.set("num_gpu_blocks_override", firstOf(m))
	}
	switch args := r.others(); {
	case strings.Contains(args, "enable_prefix_caching=False"), strings.Contains(args, "prefix caching off"):
		o.set("enable_prefix_caching", false)
	case strings.Contains(args, "enable_prefix_caching"), strings.Contains(args, "enable-prefix-caching"), strings.Contains(args, "prefix caching"):
		o.set("enable_prefix_caching", true)
	}
	o.device(r.text("gpu"), r.number("tensor_parallel_size") > 0)
	o.length()
	return o.Observation, o.enoughForVLLM(r, req)
}

// length is printed beside tokens and requests; where an excerpt cut it off, their quotient
// tells which power of two it is.
func (o teller) length() {
	tokens, _ := o.Int("tokens")
	x, ok := o.Float("max_concurrency")
	if _, said := o.Find("max_model_len"); ok && !said && tokens > 0 && x > 0 {
		o.set("max_model_len", int64(math.Exp2(math.Round(math.Log2(float64(tokens)/x)))))
	}
}

// enoughForVLLM says what a row lacks.
func (o teller) enoughForVLLM(r publicRow, req *headcount.Request) string {
	has := func(name string) bool { _, ok := o.Find(name); return ok }
	pool := has("available_bytes") || has("num_blocks")
	switch {
	case !pool || !has("tokens") && !has("max_concurrency") && !(has("num_blocks") && has("available_bytes")):
		return "no pool or no tokens are printed"
	case otherBuild.MatchString(fmt.Sprint(o.Version, " ", r.text("gpu"), " ", r.text("model"), " ", r.text("notes"), r.others())):
		return "a fork, or a build for other devices"
	case otherDraft.MatchString(r.others()):
		return "a draft model that is not at hand"
	}
	plan := *req
	plan.Engine = "vllm"
	if p, err := headcount.Plan(context.Background(), plan); err == nil && len(p.KVCache.Groups) > 1 && (o.Version == "" || !has("max_model_len")) {
		return "tokens of a hybrid, without the release or the length that they depend on"
	}
	return ""
}

var (
	loadEnd  = regexp.MustCompile(`Load weight end avail mem=([\d.]+)`)
	swaPool  = regexp.MustCompile(`full_layer_tokens=(\d+), swa_layer_tokens=(\d+)`)
	argument = regexp.MustCompile(`(max_total_tokens|swa_full_tokens_ratio|speculative_algorithm|disable_cuda_graph)=([\w.]+)`)
)

// tellSGLang retells a row of SGLang's.
func tellSGLang(r publicRow, _ *headcount.Request) (*verify.Observation, string) {
	o := tells("sglang", r.text("engine_version"))
	o.whole(r, "tp_size", "tensor_parallel_size")
	o.whole(r, "dp_size", "data_parallel_size")
	o.whole(r, "page_size", "page_size")
	o.whole(r, "chunked_prefill_size", "chunked_prefill_size")
	o.whole(r, "max_total_num_tokens", "max_total_num_tokens")
	o.whole(r, "tokens", "pool_tokens")
	o.gib(r, "k_size_gb", "k_bytes")
	o.gib(r, "v_size_gb", "v_bytes")
	o.gib(r, "kv_size_gb", "kv_bytes")
	if on, ok := r["enable_dp_attention"].(bool); ok {
		o.set("enable_dp_attention", on)
	}
	if x := r.number("mem_fraction_static"); x > 0 {
		o.set("mem_fraction_static", x)
	}
	if s := r.text("dtype"); s != "" {
		o.set("dtype", dtype(s))
	}
	if s := dtype(r.text("kv_cache_dtype")); s != "" {
		if s == "float16" || s == "bfloat16" {
			s = "auto"
		}
		o.set("kv_cache_dtype", s)
	}
	for _, m := range argument.FindAllStringSubmatch(r.text("other_args"), -1) {
		switch m[1] {
		case "max_total_tokens":
			n, _ := strconv.ParseInt(m[2], 10, 64)
			o.set(m[1], n)
		case "swa_full_tokens_ratio":
			x, _ := strconv.ParseFloat(m[2], 64)
			o.set(m[1], x)
		}
	}
	if m := loadEnd.FindStringSubmatch(r.others()); m != nil {
		o.gib(r, "avail_mem_before_gb", "memory_begin")
		if s, ok := verify.ParseGiB(m[1]); ok {
			o.set("memory_end", s)
		}
	}
	if m := swaPool.FindStringSubmatch(r.others()); m != nil {
		full, _ := strconv.ParseInt(m[1], 10, 64)
		o.set("full_tokens", full)
	}
	has := func(name string) bool { _, ok := o.Find(name); return ok }
	lacking := ""
	switch {
	case !has("max_total_num_tokens") && !has("pool_tokens"):
		lacking = "no tokens are printed"
	case !has("k_bytes") && !has("kv_bytes") && !has("memory_end"):
		lacking = "no size of a pool and no free memory are printed"
	case !has("tensor_parallel_size") && strings.Contains(r.text("gpu"), "x"):
		lacking = "the layout is not said"
	}
	return o.Observation, lacking
}

// tellLlama retells a row of llama.cpp's. Rows that print the widths of their layers need no
// model.
func tellLlama(r publicRow, _ *headcount.Request) (*verify.Observation, string) {
	o := tells("llama.cpp", r.text("engine_version"))
	for _, name := range []string{"n_ctx", "n_seq_max", "cells", "layers", "n_layer", "n_embd_k_gqa", "n_embd_v_gqa"} {
		o.whole(r, name, name)
	}
	o.mib(r, "k_mib", "k_bytes")
	o.mib(r, "v_mib", "v_bytes")
	for _, part := range []string{"k", "v"} {
		if s := r.text("type_" + part); s != "" {
			o.set(part+"_type", s)
		}
	}
	has := func(name string) bool { _, ok := o.Find(name); return ok }
	lacking := ""
	switch {
	case !has("k_bytes") || !has("k_type"):
		lacking = "the line is not quoted with its formats"
	case !has("cells") && !has("n_ctx"):
		lacking = "neither cells nor a context size are printed"
	case r.number("n_embd_k_gqa") > 0 && has("n_layer"):
		lacking = "its own widths"
	}
	return o.Observation, lacking
}

// tellTRT retells a row of TensorRT-LLM's.
func tellTRT(r publicRow, req *headcount.Request) (*verify.Observation, string) {
	o := tells("tensorrt-llm", r.text("engine_version"))
	o.whole(r, "tp_size", "tensor_parallel_size")
	o.whole(r, "tokens_per_block", "tokens_per_block")
	o.whole(r, "num_blocks", "num_blocks")
	o.whole(r, "max_tokens_in_paged_kv_cache", "tokens")
	o.gib(r, "kv_gib", "kv_bytes")
	if s := r.text("kv_cache_dtype"); s != "" {
		o.set("kv_cache_dtype", strings.ToLower(s))
	}
	if _, ok := o.Find("kv_bytes"); !ok {
		return o.Observation, "no pool or no tokens are printed"
	}
	return o.Observation, ""
}
