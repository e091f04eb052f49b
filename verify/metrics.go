package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"headcount/problem"
)

// A Sample is one value of a Prometheus text page.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Samples are the values of a Prometheus text page, as far as they can be read. Comments,
// and lines that are none of it, are passed over.
func Samples(page []byte) iter.Seq[Sample] {
	return func(yield func(Sample) bool) {
		for line := range bytes.Lines(page) {
			if s, ok := sample(strings.TrimSpace(string(line))); ok && !yield(s) {
				return
			}
		}
	}
}

// sample reads `name{label="value",…} 1.5`.
func sample(line string) (s Sample, ok bool) {
	if line == "" || line[0] == '#' {
		return s, false
	}
	end := strings.IndexAny(line, "{ ")
	if end <= 0 {
		return s, false
	}
	s.Name = line[:end]
	rest := line[end:]
	if rest[0] == '{' {
		if s.Labels, rest, ok = labels(rest[1:]); !ok {
			return s, false
		}
	}
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ") // a time may follow
	x, err := strconv.ParseFloat(value, 64)
	s.Value = x
	return s, err == nil
}

// labels reads `name="value",…}`.
func labels(text string) (all map[string]string, rest string, ok bool) {
	all = map[string]string{}
	for {
		text = strings.TrimLeft(text, ", ")
		if strings.HasPrefix(text, "}") {
			return all, text[1:], true
		}
		name, after, found := strings.Cut(text, `="`)
		if !found {
			return nil, "", false
		}
		var value strings.Builder
		i := 0
		for ; i < len(after) && after[i] != '"'; i++ {
			if after[i] == '\\' && i+1 < len(after) {
				if i++; after[i] == 'n' {
					value.WriteByte('\n')
					continue
				}
			}
			value.WriteByte(after[i])
		}
		if i == len(after) {
			return nil, "", false
		}
		all[name] = value.String()
		text = after[i+1:]
	}
}

// A Page is what a server answered on one path; Body is nil when it had nothing there.
type Page struct {
	Path string
	Body []byte
}

// FromServer makes an Observation of the pages of a server: vLLM's /metrics, /v1/models and
// /version, SGLang's /metrics and /server_info, llama.cpp's /props and /metrics.
func FromServer(source string, pages []Page) (*Observation, error) {
	o := &Observation{Source: source, Started: true}
	for _, page := range pages {
		if page.Body == nil {
			continue
		}
		switch page.Path {
		case "/metrics":
			o.metrics(page.Body)
		case "/v1/models":
			o.models(page.Body)
		case "/version":
			o.version(page.Body)
		case "/server_info", "/get_server_info":
			o.serverInfo(page.Path, page.Body)
		case "/props":
			o.props(page.Body)
		}
	}
	if o.Engine == "" {
		return nil, problem.New(problem.Unreadable, "", nil, "%s: no server of vLLM, SGLang or llama.cpp answers there", source).
			WithHint("the address that clients use, http://host:8000; vLLM and SGLang (with --enable-metrics) serve /metrics beside it")
	}
	return o, nil
}

// tell keeps a fact of a page.
func (o *Observation) tell(from, rank, name string, value any) {
	if value != nil {
		o.Set(Fact{Name: name, Rank: rank, Value: value, From: from})
	}
}

// gauges are the metrics that are kept, by the fact that they tell.
var gauges = map[string]string{
	"vllm:kv_cache_usage_perc": "kv_cache_usage", "vllm:gpu_cache_usage_perc": "kv_cache_usage",
	"vllm:num_requests_running": "running", "vllm:num_requests_waiting": "waiting", "vllm:num_preemptions_total": "preemptions",
	"vllm:prefix_cache_queries_total": "prefix_queries", "vllm:prefix_cache_hits_total": "prefix_hits",
	"vllm:request_prompt_tokens_sum": "prompt_tokens", "vllm:request_prompt_tokens_count": "finished",
	"vllm:request_generation_tokens_sum": "generated_tokens",
	"sglang:token_usage":                 "kv_cache_usage", "sglang:num_running_reqs": "running", "sglang:num_queue_reqs": "waiting",
	"sglang:num_retracted_reqs": "preemptions", "sglang:cache_hit_rate": "prefix_cache_hit_rate",
	"sglang:max_total_num_tokens": "max_total_num_tokens", "sglang:context_len": "context_len",
	"sglang:prompt_tokens_total": "prompt_tokens", "sglang:generation_tokens_total": "generated_tokens", "sglang:num_requests_total": "finished",
	"llamacpp:requests_processing": "running", "llamacpp:requests_deferred": "waiting", "llamacpp:kv_cache_usage_ratio": "kv_cache_usage",
}

// wholeGauges are facts that are whole numbers.
var wholeGauges = map[string]bool{"max_total_num_tokens": true, "context_len": true, "running": true, "waiting": true, "preemptions": true}

// metrics reads a Prometheus page.
func (o *Observation) metrics(body []byte) {
	for s := range Samples(body) {
		prefix, _, _ := strings.Cut(s.Name, ":")
		switch prefix {
		case "vllm", "sglang":
			o.Engine = prefix
		case "llamacpp":
			o.Engine = llamaName
		default:
			continue
		}
		rank := ""
		if n := s.Labels["engine"]; n != "" && n != "0" { // vLLM's data-parallel replicas
			rank = "DP" + n
		}
		if s.Name == "vllm:cache_config_info" {
			o.cacheConfig(rank, s.Labels)
			continue
		}
		if name := gauges[s.Name]; name != "" && !math.IsNaN(s.Value) && math.Abs(s.Value) < mostWhole {
			var value any = s.Value
			if wholeGauges[name] {
				value = int64(s.Value)
			}
			o.tell("/metrics", rank, name, value)
		}
	}
}

// cacheConfig reads the labels of vLLM's one metric that tells how it was set up. Sizes that
// the engine settled are no options: a plan has to come to them.
func (o *Observation) cacheConfig(rank string, labels map[string]string) {
	for _, pair := range [...][2]string{
		{"gpu_memory_utilization", "gpu_memory_utilization"}, {"kv_cache_memory_bytes", "kv_cache_memory_bytes"},
		{"num_gpu_blocks_override", "num_gpu_blocks_override"}, {"cache_dtype", "kv_cache_dtype"}, {"enable_prefix_caching", "enable_prefix_caching"},
		{"mamba_cache_mode", "mamba_cache_mode"}, {"mamba_ssm_cache_dtype", "mamba_ssm_cache_dtype"}, {"block_size", "resolved_block_size"},
		{"num_gpu_blocks", "num_blocks"}, {"kv_cache_size_tokens", "tokens"}, {"kv_cache_max_concurrency", "max_concurrency"},
	} {
		if v := scalar(labels[pair[0]]); v != nil {
			o.tell("/metrics", rank, pair[1], v)
		}
	}
	if n := scalar(labels["block_size"]); n != nil && labels["user_specified_block_size"] == "True" {
		o.tell("/metrics", rank, "block_size", n)
	}
}

// models reads /v1/models.
func (o *Observation) models(body []byte) {
	var list struct {
		Data []struct {
			ID          string `json:"id"`
			Root        string `json:"root"`
			OwnedBy     string `json:"owned_by"`
			MaxModelLen int64  `json:"max_model_len"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil || len(list.Data) == 0 {
		return
	}
	served := list.Data[0]
	if o.Engine == "" && (served.OwnedBy == vllmName || served.OwnedBy == sglangName) {
		o.Engine = served.OwnedBy
	}
	if served.Root == "" {
		served.Root = served.ID
	}
	o.tell("/v1/models", "", "model", served.Root)
	if n := served.MaxModelLen; n > 0 && n < mostWhole && o.Engine == vllmName {
		o.tell("/v1/models", "", "max_model_len", n)
	}
}

// version reads vLLM's /version.
func (o *Observation) version(body []byte) {
	var v struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(body, &v) == nil && o.Engine == vllmName && len(v.Version) < maxText {
		o.Version, _, _ = strings.Cut(v.Version, "+cpu")
	}
}

// serverInfo reads SGLang's arguments and what it sized.
func (o *Observation) serverInfo(path string, body []byte) {
	var info map[string]any
	if json.Unmarshal(body, &info) != nil || info["model_path"] == nil {
		return
	}
	o.Engine = sglangName
	if v, ok := info["version"].(string); ok && len(v) < maxText {
		o.Version = v
	}
	p := Parser{starts: []*Observation{o}, seen: map[string]bool{}}
	l := line{parser: &p, engine: sglangName}
	for _, name := range slices.Sorted(maps.Keys(info)) {
		switch v := info[name].(type) {
		case string, bool:
			if keep, ok := sglangArguments[name]; ok {
				keep(&l, name, fmt.Sprint(v))
			}
		case float64:
			if keep, ok := sglangArguments[name]; ok {
				keep(&l, name, strconv.FormatFloat(v, 'f', -1, 64))
			}
			if name == "max_total_num_tokens" && math.Abs(v) < mostWhole {
				o.tell(path, "", name, int64(v))
			}
		}
	}
	for i := range o.Facts {
		if o.Facts[i].From == "" {
			o.Facts[i].From = path
		}
	}
	states, _ := info["internal_states"].([]any)
	for i, state := range states {
		rank := ""
		if len(states) > 1 {
			rank = "DP" + strconv.Itoa(i)
		}
		fields, _ := state.(map[string]any)
		usage, _ := fields["memory_usage"].(map[string]any)
		for _, pair := range [...][2]string{{"weight", "weights_bytes"}, {"kvcache", "pools_bytes"}, {"graph", "graph_bytes"}} {
			if x, ok := usage[pair[0]].(float64); ok && math.Abs(x) < 1<<20 {
				s, _ := gibibytes(strconv.FormatFloat(x, 'f', 2, 64))
				o.tell(path, rank, pair[1], s)
			}
		}
	}
}

// props reads llama.cpp's /props.
func (o *Observation) props(body []byte) {
	var props struct {
		BuildInfo string `json:"build_info"`
		ModelPath string `json:"model_path"`
		Slots     int64  `json:"total_slots"`
		Default   struct {
			Context int64 `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if json.Unmarshal(body, &props) != nil || props.ModelPath == "" || o.Engine != "" && o.Engine != llamaName {
		return
	}
	o.Engine = llamaName
	o.Version, _, _ = strings.Cut(props.BuildInfo, "-")
	o.tell("/props", "", "model", props.ModelPath)
	if n := props.Slots; n > 0 && n < mostWhole {
		o.tell("/props", "", "n_seq_max", n)
	}
	if n := props.Default.Context; n > 0 && n < mostWhole {
		o.tell("/props", "", "n_ctx", n)
	}
}
