package model

import (
	"slices"

	"headcount/checkpoint"
	"headcount/dtype"
)

// A Rope is one set of rotary position parameters, for which an engine makes a table of
// its own: a row per position, an element per dimension that turns.
type Rope struct {
	LayerType string     // of the layers that it serves, "sliding_attention"; "" for all
	Type      string     // rope_type: default, linear, yarn, longrope, …
	Theta     float64    // rope_theta
	Width     int        // elements of a head
	Dim       int        // of these, elements that turn
	Length    int        // positions: max_position_embeddings
	Served    bool       // the table has rows for the length that is served instead
	Trained   int        // original_max_position_embeddings, where the type stretches it
	Factor    float64    // by how much the type stretches; 1 where it does not
	Apart     bool       // of an indexer, which turns other pairs of elements than attention does
	Sections  bool       // parts of a head turn by parts of a position (mrope_section), side by side
	DType     dtype.Type // set when the table is kept in another format than the model's
}

// A rotary is what families say of rotary positions where it is not what the config's
// rope_parameters say. The zero rotary says nothing.
type rotary struct {
	none   bool   // no layer turns its heads
	only   string // the one layer type whose layers do; "" for all
	dim    int    // elements of a head that turn; 0: the head dim times partial_rotary_factor
	length int    // positions; 0: max_position_embeddings
	served bool   // positions are those of the length that is served
	dtype  dtype.Type
	widths map[string]int // head dim by layer type, where it is not the decoder's
}

// ropes are a model's rotary parameters for heads of a width, one set or one for each
// layer type.
func (r *reader) ropes(at rotary, width int) []Rope {
	if at.none || width == 0 {
		return nil
	}
	params := r.Object("rope_parameters")
	var out []Rope
	for _, key := range params.Keys() {
		nested := params.Dict(key)
		if nested == nil {
			continue
		}
		own := width
		if w, ok := at.widths[key]; ok {
			own = w
		}
		rope := r.rope(nested, at, own)
		rope.LayerType = key
		out = append(out, rope)
	}
	if len(out) == 0 {
		out = []Rope{r.rope(params, at, width)}
		out[0].LayerType = at.only
	}
	return out
}

// OnlyYaRN reports whether the model's class takes any stretching of positions for YaRN (vllm
// deepseek_v2.py, AXK1.py, deepseek_v32/attention.py).
func (m *Model) OnlyYaRN() bool {
	return slices.Contains([]string{"deepseek", "deepseek_v32", "glm4_moe_lite", "axk1", "longcat_flash"}, m.Family)
}

// rope reads one set of rotary parameters.
func (r *reader) rope(params *checkpoint.Object, at rotary, width int) Rope {
	theta, _ := params.Get("rope_theta")
	out := Rope{Type: params.Text("rope_type"), Width: width, Dim: at.dim, Length: at.length, Served: at.served, Factor: 1, DType: at.dtype}
	out.Theta, _ = theta.Float()
	if out.Type == "" {
		out.Type = "default"
	}
	if out.Length == 0 {
		out.Length = r.opt("max_position_embeddings", 8192)
	}
	if n, ok := intOf(params, "rope_dim"); ok && n > 0 && n <= int64(width) {
		out.Dim = int(n)
	}
	if out.Dim == 0 {
		out.Dim = width
		if part, ok := r.partial(params); ok && !r.turnsWhole(out.Type) && part > 0 && part <= 1 && out.Type != "proportional" {
			out.Dim = int(float64(width) * part)
		}
	}
	out.Trained = out.Length
	n, ok := intOf(params, trainedLength)
	if !ok {
		n, ok = r.Int(trainedLength)
	}
	if ok && n > 0 && n <= maxSize {
		out.Trained = int(n)
	}
	if f, ok := factor(params); ok && f > 0 && f <= maxSize {
		out.Factor = f
	}
	sections, _ := params.Get("mrope_section")
	out.Sections = len(sections.List()) > 0 && !slices.Contains(countedByToken, r.ModelType())
	return out
}

// countedByToken are text models whose positions never exceed the tokens, so that tables
// for parts of a position are no longer than others (vllm qwen3_vl.py, mrope_positions_factor).
var countedByToken = []string{"qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_5_text", "qwen3_5_moe_text", "qwen4_exp_text"}

// turnWhole are text models whose class turns heads whole, whatever part the file gives: by the
// type of scaling, "" any (the modelling files of transformers; vllm bert_with_rope.py,
// falcon_h1.py, k2_horizon.py).
var turnWhole = map[string]string{
	"arcee": "default", "doge": "default", "dots1": "default", "eurobert": "default", "falcon_h1": "default", "gte": "", "helium": "default",
	"hunyuan_v1_dense": "dynamic", "jais2": "default", "k2_horizon": "default", "nanochat": "default", "new": "", "olmo": "default",
	"olmo2": "default", "olmo3": "default", "seed_oss": "default", "smollm3": "default", "starcoder2": "default",
}

func (r *reader) turnsWhole(scaling string) bool {
	of, ok := turnWhole[r.ModelType()]
	return ok && (of == "" || of == scaling || scaling == "default")
}

// partial is the part of a head that turns.
func (r *reader) partial(params *checkpoint.Object) (float64, bool) {
	v, _ := params.Get("partial_rotary_factor")
	if part, ok := v.Float(); ok {
		return part, true
	}
	return r.Float("partial_rotary_factor")
}

// factor is how far positions are stretched; of a list of factors, all of them together.
func factor(params *checkpoint.Object) (float64, bool) {
	v, _ := params.Get("factor")
	if v.Kind() != checkpoint.List {
		return v.Float()
	}
	sum := 0.0
	for _, f := range v.List() {
		n, _ := f.Float()
		sum += n
	}
	return sum, true
}

// Same reports whether two sets of parameters differ in nothing but the layers they serve,
// so that an engine that looks tables up by their parameters makes one for both.
func (rope Rope) Same(other Rope) bool {
	rope.LayerType, other.LayerType = "", ""
	return rope == other
}

// Serves reports whether any of the layers uses the rope.
func (rope Rope) Serves(layers []*Layer) bool { return slices.ContainsFunc(layers, rope.serves) }

func (rope Rope) serves(l *Layer) bool {
	if l.Turns != "" {
		return l.Turns == rope.LayerType
	}
	compressed := slices.ContainsFunc(l.Caches, func(c Cache) bool { return c.Ratio > 1 })
	windowed := slices.ContainsFunc(l.Caches, func(c Cache) bool { return c.Window > 0 })
	switch rope.LayerType {
	case "":
		return l.Attends()
	case "compressed":
		return compressed
	case "pooled", "windowed":
		return (rope.LayerType == "pooled") == slices.ContainsFunc(l.Caches, func(c Cache) bool { return c.Ratio > 0 })
	case "uncompressed":
		return !compressed
	case "sliding_attention", "chunked_attention":
		return windowed || l.Local
	}
	return len(l.Caches) > 0 && !windowed && !l.Local
}
