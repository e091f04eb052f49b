package model

import (
	"strings"

	"headcount/dtype"
)

// bert, RoBERTa and their kin read a text in both directions and cache nothing. Native
// classes split all three tables by rows; where Transformers' modules run, the table of
// positions, attention's output and the MLP stay whole, and there is a pooler (vllm
// bert.py, roberta.py; transformers modeling_bert.py, modeling_camembert.py).
var bert = family{
	name: "bert",
	architectures: []string{"BertModel", "BertForMaskedLM", "RobertaModel", "RobertaForMaskedLM", "XLMRobertaModel",
		"CamembertModel", "CamembertForMaskedLM", "XLMRobertaForMaskedLM"},
	types: []string{"bert", "roberta", "xlm-roberta", "camembert"},
	heads: map[string]taskHead{
		"ForSequenceClassification": bertSequence, "ForTokenClassification": bertToken, "BertForMaskedLM": bertMasked,
	},
	resolve: func(r *reader) *Model {
		m := r.decoder(decoder{
			encoder:   true,
			square:    true,
			ungrouped: true,
			qkvBias:   true,
			outBias:   true,
			mlpBias:   true,
			normBias:  true,
			norms:     []string{"attention.output.LayerNorm", "output.LayerNorm"},
			rotary:    rotary{none: true},
			names:     bertNames,
		})
		for _, l := range distinct(m.Layers) {
			for i := range l.Params {
				p := &l.Params[i]
				p.fused = p.fused && !strings.HasPrefix(p.Name, "attention.output")
			}
		}
		length, types := r.size("max_position_embeddings"), r.size("type_vocab_size")
		positions := table("embeddings.position_embeddings", length, m.HiddenSize)
		positions.OffPlan = length != m.VocabSize && length != types // vLLM knows a vocabulary's table by its rows (transformers/base.py, _vocab_embeddings)
		m.Outer = append([]Param{
			table("embeddings.word_embeddings", m.VocabSize, m.HiddenSize), positions, table("embeddings.token_type_embeddings", types, m.HiddenSize),
		}, layerNorm("embeddings.LayerNorm", m.HiddenSize)...)
		m.Outer = append(m.Outer, pooler(m.HiddenSize, dtype.Unknown)...)
		m.Buffers = []Param{
			{Name: "embeddings.position_ids", Part: Other, Rows: positions.Rows, DType: dtype.Int64},
			{Name: "embeddings.token_type_ids", Part: Pooler, Rows: positions.Rows, DType: dtype.Int64},
		}
		for i := range m.Buffers {
			m.Buffers[i].Rows.Split = Whole
		}
		return m
	},
}

// table is an embedding split by rows, as that of a vocabulary.
func table(name string, rows, width int) Param {
	return Param{Name: name + ".weight", Part: Embedding, Rows: vocabulary(rows), Cols: whole(width)}
}

// pooler is the projection of the first token that BERT's base model has.
func pooler(hidden int, dt dtype.Type) []Param {
	weight := linear("pooler.dense", Pooler, whole(hidden), whole(hidden))
	shift := bias("pooler.dense", Pooler, whole(hidden))
	weight.DType, shift.DType = dt, dt
	return []Param{weight, shift}
}

// bertSequence scores the pooled first token; RoBERTa's head has the same sizes under other
// names.
func bertSequence(c *Config, hidden, vocab, labels int) []Param {
	params := pooler(hidden, dtype.Float32)
	for i := range params {
		params[i].Part = Other
	}
	return append(params, bertToken(c, hidden, vocab, labels)...)
}

// bertToken scores each token.
func bertToken(_ *Config, hidden, _, labels int) []Param {
	return []Param{
		{Name: "classifier.weight", Part: Head, Rows: whole(labels), Cols: whole(hidden), DType: dtype.Float32},
		{Name: "classifier.bias", Part: Head, Rows: whole(labels), DType: dtype.Float32}}
}

// bertMasked predicts words, with a matrix of its own that is whole on every rank.
func bertMasked(_ *Config, hidden, vocab, _ int) []Param {
	params := []Param{
		linear("cls.predictions.transform.dense", Head, whole(hidden), whole(hidden)),
		bias("cls.predictions.transform.dense", Head, whole(hidden)),
		linear("cls.predictions.decoder", Head, whole(vocab), whole(hidden)),
		bias("cls.predictions.decoder", Head, whole(vocab)),
	}
	return append(params, layerNorm("cls.predictions.transform.LayerNorm", hidden)...)
}

var bertNames = strings.NewReplacer(
	"self_attn.q_proj", "attention.self.query", "self_attn.k_proj", "attention.self.key",
	"self_attn.v_proj", "attention.self.value", "self_attn.o_proj", "attention.output.dense",
	"mlp.up_proj", "intermediate.dense", "mlp.down_proj", "output.dense")

// euroBERT is a Llama that reads in both directions (transformers modeling_eurobert.py).
var euroBERT = family{
	name:          "eurobert",
	architectures: []string{"EuroBertModel", "EuroBertForMaskedLM"},
	types:         []string{"eurobert"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{encoder: true, gated: true, qkvBias: bias, outBias: bias, mlpBias: r.flag("mlp_bias", false)})
	},
}

// modernBERT has no norm before the first layer's attention (vllm modernbert.py).
var modernBERT = family{
	name:          "modernbert",
	architectures: []string{"ModernBertModel", "ModernBertForMaskedLM"},
	types:         []string{"modernbert"},
	heads:         map[string]taskHead{"ForSequenceClassification": modernBERTSequence, "ForTokenClassification": modernBERTToken},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		d := decoder{
			encoder:  true,
			gated:    true,
			qkvBias:  bias,
			outBias:  bias,
			mlpBias:  r.flag("mlp_bias", false),
			normBias: r.flag("norm_bias", false),
			norms:    []string{"attn_norm", "mlp_norm"},
			names:    modernBERTNames,
		}
		m := r.decoder(d)
		if r.err != nil {
			return m
		}
		first := d
		first.heads, first.intermediate, first.norms = r.heads(), r.size("intermediate_size"), d.norms[1:]
		m.Layers[0] = &Layer{Caches: first.caches(layerKind{}), Params: first.params(layerKind{}, m.HiddenSize)}
		m.Outer = []Param{table("embeddings.tok_embeddings", m.VocabSize, m.HiddenSize)}
		m.Outer = append(m.Outer, d.norm("embeddings.norm", m.HiddenSize)...)
		m.Outer = append(m.Outer, d.norm("final_norm", m.HiddenSize)...)
		return m
	},
}

// modernBERTSequence scores the pooled token behind a projection and a norm.
func modernBERTSequence(c *Config, hidden, vocab, labels int) []Param {
	params := modernBERTToken(c, hidden, vocab, labels)
	for i := range params {
		params[i].DType = dtype.Float32
	}
	return params
}

// modernBERTToken scores each token so, behind a projection and a norm of the model's dtype.
func modernBERTToken(c *Config, hidden, vocab, labels int) []Param {
	params := []Param{linear("head.dense", Other, whole(hidden), whole(hidden)), norm("head.norm", hidden)}
	if biased, _ := c.Bool("classifier_bias"); biased {
		params = append(params, bias("head.dense", Other, whole(hidden)))
	}
	if biased, _ := c.Bool("norm_bias"); biased {
		params = append(params, bias("head.norm", Norm, whole(hidden)))
	}
	return append(params, bertToken(c, hidden, vocab, labels)...)
}

var modernBERTNames = strings.NewReplacer(
	"self_attn.q_proj", "attn.Wqkv", "self_attn.k_proj", "attn.Wqkv", "self_attn.v_proj", "attn.Wqkv",
	"self_attn.o_proj", "attn.Wo", "gate_proj", "Wi", "up_proj", "Wi", "down_proj", "Wo")

// stretched is how many positions a table has that is made for the whole stretched length
// of dynamic scaling.
func (r *reader) stretched() int {
	length := r.opt("max_position_embeddings", 2048)
	f, ok := factor(r.Object("rope_parameters"))
	if n := float64(length) * f; ok && r.Object("rope_parameters").Text("rope_type") == "dynamic" && n >= 1 && n < maxSize {
		return int(n)
	}
	return length
}

// nomicBERT is BERT with rotary positions and, for swiglu, a gate. The engine counts layers
// and widths by GPT-2's names, which its files have beside the class's own, and no head_dim
// (vllm bert_with_rope.py, config.py NomicBertModelConfig).
var nomicBERT = family{
	name:          "nomic_bert",
	architectures: []string{"NomicBertModel"},
	types:         []string{"nomic_bert"},
	resolve: func(r *reader) *Model {
		bias := r.flag("qkv_proj_bias", true)
		act, _ := r.Text("activation_function")
		hidden := r.size(r.given("n_embd", "hidden_size"))
		m := r.decoder(decoder{
			encoder:      true,
			gated:        act == "" || act == "swiglu",
			qkvBias:      bias,
			outBias:      bias,
			mlpBias:      r.flag("mlp_fc1_bias", true),
			normBias:     true,
			norms:        []string{"norm1", "norm2"},
			depth:        r.depth(r.given("n_layer", "num_hidden_layers")),
			hidden:       hidden,
			heads:        r.sharing(hidden),
			intermediate: r.size(r.given("n_inner", "intermediate_size")),
			rotary:       rotary{length: r.stretched(), served: true},
		})
		m.Outer = append([]Param{
			table("embeddings.word_embeddings", m.VocabSize, m.HiddenSize),
			table("embeddings.token_type_embeddings", r.opt("type_vocab_size", 0), m.HiddenSize),
		}, layerNorm("emb_ln", m.HiddenSize)...)
		return m
	},
}

// sharing are query heads that share a width, each with a KV head of its own.
func (r *reader) sharing(width int) heads {
	n := r.count("num_attention_heads")
	each := max(width/n, 1)
	return heads{query: n, kv: n, key: each, value: each}
}

// gteNew is BERT with rotary positions and a gated MLP, of which only what goes out has a
// bias (vllm bert_with_rope.py, GteNewModel).
var gteNew = family{
	name:          "gte_new",
	architectures: []string{"GteNewModel", "GteModel"},
	types:         []string{"new", "gte"},
	heads:         map[string]taskHead{"ForSequenceClassification": bertSequence},
	resolve: func(r *reader) *Model {
		hidden := r.size("hidden_size")
		var rest []Param
		for _, name := range []struct {
			norm string
			part Part
		}{{"attn_ln", Attention}, {"mlp_ln", MLP}} {
			for _, p := range layerNorm(name.norm, hidden) {
				p.Part = name.part
				rest = append(rest, p)
			}
		}
		m := r.decoder(decoder{
			encoder: true, gated: true, qkvBias: true, outBias: true, norms: []string{}, noFinalNorm: true,
			heads: r.sharing(hidden),
			extra: func(int) []Param {
				return append(rest[:len(rest):len(rest)], bias("mlp.down_proj", MLP, whole(hidden)))
			},
			rotary: rotary{dim: r.opt("rotary_emb_dim", 0)},
		})
		m.Outer = append([]Param{
			table("embeddings.word_embeddings", m.VocabSize, m.HiddenSize),
			table("embeddings.token_type_embeddings", r.opt("type_vocab_size", 0), m.HiddenSize),
		}, layerNorm("embeddings.LayerNorm", m.HiddenSize)...)
		return m
	},
}
