// Package bootlog reads public start-up logs, facts of one start each, and puts each as the
// question that a planner would be asked. The rows themselves are not in the repository.
package bootlog

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"headcount"
	"headcount/engine"
	"headcount/hw"
	"headcount/layout"
)

// A Row is what one start printed, as far as it was quoted. Sizes are GiB.
type Row struct {
	Line int // from 0

	Engine       string   `json:"engine"`
	Version      string   `json:"engine_version"`
	Model        string   `json:"model"`
	GPU          string   `json:"gpu"`
	DType        string   `json:"dtype"`
	CacheDType   string   `json:"kv_cache_dtype"`
	Quantization string   `json:"quantization"`
	Other        string   `json:"other_args"`
	Notes        string   `json:"notes"`
	Lines        []string `json:"other_lines"`

	TP         int     `json:"tensor_parallel_size"`
	PP         int     `json:"pipeline_parallel_size"`
	DP         int     `json:"data_parallel_size"`
	DCP        int     `json:"decode_context_parallel_size"`
	Length     int64   `json:"max_model_len"`
	Sequences  int     `json:"max_num_seqs"`
	Tokens     int     `json:"max_num_batched_tokens"`
	Fraction   float64 `json:"gpu_memory_utilization"`
	Eager      bool    `json:"enforce_eager"`
	Total      float64 `json:"total_gpu_memory_gib"`
	Weights    float64 `json:"model_load_gib"`
	Peak       float64 `json:"peak_activation_gib"`
	Growth     float64 `json:"non_torch_gib"`
	Graphs     float64 `json:"graph_capture_gib"`
	AvailText  string  `json:"available_kv_gib"`
	PoolTokens int64   `json:"gpu_kv_cache_tokens"`

	SGTP      int     `json:"tp_size"` // SGLang
	SGDP      int     `json:"dp_size"`
	SGDPAttn  bool    `json:"enable_dp_attention"`
	Static    float64 `json:"mem_fraction_static"`
	Begin     float64 `json:"avail_mem_before_gb"`
	SGWeights float64 `json:"weight_mem_gb"`
	Context   int64   `json:"context_length"`
	SGTokens  int64   `json:"max_total_num_tokens"`
	Chunk     int     `json:"chunked_prefill_size"`
}

// Load reads the rows of one engine's file in dir.
func Load(dir, engineName string) ([]Row, error) {
	f, err := os.Open(filepath.Join(dir, "logs", engineName+".jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []Row
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 0; lines.Scan(); n++ {
		row := Row{Line: n}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, lines.Err()
}

// Available is the pool that was printed, GiB.
func (r *Row) Available() (gib float64, ok bool) {
	gib, err := strconv.ParseFloat(r.AvailText, 64)
	return gib, err == nil
}

var estimate = regexp.MustCompile(`(?i)estimated CUDA graph memory:? (-?[\d.]+) GiB`)

// GraphEstimate is what the engine expected graphs to take, GiB.
func (r *Row) GraphEstimate() (gib float64, ok bool) {
	for _, line := range r.Lines {
		if m := estimate.FindStringSubmatch(line); m != nil {
			gib, err := strconv.ParseFloat(m[1], 64)
			return gib, err == nil
		}
	}
	return 0, false
}

var afterLoad = regexp.MustCompile(`^Load weight end avail mem=([\d.]+) GB`)

// end is SGLang's free memory after the weights, GiB, 0 where it was not quoted.
func (r *Row) end() float64 {
	for _, line := range r.Lines {
		if m := afterLoad.FindStringSubmatch(line); m != nil {
			gib, _ := strconv.ParseFloat(m[1], 64)
			return gib
		}
	}
	return 0
}

// begin is the same before them. Some rows hold the later reading in its field, and say so.
func (r *Row) begin() float64 {
	if strings.Contains(r.Notes, "avail_mem_before is") {
		return 0
	}
	return r.Begin
}

// shared reports whether so much was gone before an SGLang start that another process must
// have had it.
func (r *Row) shared() bool {
	gpu, _ := r.Accelerator()
	if gpu == nil {
		return false
	}
	total, _ := gpu.TotalBytes()
	return float64(total)/(1<<30)-r.begin() > 4
}

// pool is what a start left for the cache, GiB, where the row states all that it hangs on.
func (r *Row) pool() (gib float64, ok bool) {
	if r.Engine == "sglang" {
		if r.begin() == 0 || r.end() == 0 || r.Static == 0 || r.shared() {
			return 0, false
		}
		return r.end() - r.begin()*(1-r.Static), true
	}
	gib, ok = r.Available()
	return gib, ok && r.Fraction > 0 && r.ours()
}

var (
	count    = regexp.MustCompile(` x ?(\d+)\b.*$|^(\d+) ?x `)
	gpuWords = regexp.MustCompile(`(?i)\([^)]*\)|\b(nvidia|blackwell|workstation|\d+ ?(gb|gib|mib)|\d+,\d+ mib|hbm3|pcie)\b|[-, ]+$`)
)

// Accelerator is the device of a row, nil where its name is not one that is known, and how
// many of them the row speaks of, 0 if it does not say.
func (r *Row) Accelerator() (gpu *hw.Accelerator, n int) {
	name := r.GPU
	if m := count.FindStringSubmatch(name); m != nil {
		n, _ = strconv.Atoi(m[1] + m[2])
		name = count.ReplaceAllString(name, "")
	}
	for _, try := range []string{name, strings.TrimSpace(gpuWords.ReplaceAllString(name, " "))} {
		if gpu, err := hw.Lookup(try); err == nil {
			return gpu, n
		}
	}
	return nil, n
}

// Request is the row as a question about a model that a resolver knows by name. why says
// what keeps it from being one: what a plan depends on and the row does not state, or what
// no plan covers.
func (r *Row) Request(model string) (req headcount.Request, why string) {
	gpu, n := r.Accelerator()
	switch {
	case gpu == nil:
		return req, "the accelerator is not named or not known"
	case !gpu.EngineRules():
		return req, "the accelerator is not NVIDIA's"
	case strings.Contains(r.Other, "offload") || strings.Contains(r.Notes, "offload"):
		return req, "weights are offloaded"
	}
	req = headcount.Request{Model: model, GPU: gpu.ID, Engine: r.Engine}
	req.Layout = layout.Layout{TP: r.TP, PP: r.PP, DCP: r.DCP}
	if r.Engine == "sglang" {
		req.Layout = layout.Layout{TP: r.SGTP, DP: r.SGDP, DPAttention: r.SGDPAttn && r.SGDP > 1}
		if !req.Layout.DPAttention {
			req.Layout.DP = 0
		}
	}
	if req.Layout.TP == 0 {
		if n != 1 {
			return req, "the layout is not stated"
		}
		req.Layout.TP = 1
	}
	if version := release.FindString(r.Version); version != "" && r.Engine == "vllm" {
		req.Engine += "@" + version
	}
	req.Options = engine.Options{
		DType: strings.TrimPrefix(r.DType, "torch."), MaxModelLen: r.Length, MaxNumSeqs: r.Sequences, MaxNumBatched: r.Tokens,
		GPUMemoryUtilization: r.Fraction, EnforceEager: r.Eager, MemFractionStatic: r.Static, ChunkedPrefillSize: r.Chunk,
		KVCacheDType: strings.TrimPrefix(r.CacheDType, "torch."),
	}
	if r.Engine == "sglang" {
		req.MaxModelLen, req.KVCacheDType = r.Context, ""
	}
	req.LanguageModelOnly = textOnly.MatchString(r.Other)
	if r.Quantization == "fp8" && r.Engine == "vllm" {
		req.Quantization = "fp8"
	}
	return req, ""
}

var textOnly = regexp.MustCompile(`text only|language.model.only|'image': 0|image=0`)

// ours reports whether the row is of a build of the engine's own sources: a release, or a
// commit of it.
func (r *Row) ours() bool {
	_, build, local := strings.Cut(r.Version, "+")
	return release.MatchString(r.Version) && (!local || commit.MatchString(build))
}

var commit = regexp.MustCompile(`^g[0-9a-f]{7,12}$`)

var release = regexp.MustCompile(`^0\.(?:[89]|[12]\d|3[0-3])\.\d+`)
