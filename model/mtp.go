package model

import "headcount/problem"

// nextN reads how many MTP layers a checkpoint holds beside the decoder's.
func (r *reader) nextN() int {
	for _, key := range []string{"num_nextn_predict_layers", "num_mtp_layers"} {
		if _, ok := r.whole(key, 0); ok {
			return r.nextAt(key, 0)
		}
	}
	return 0
}

// nextAt reads the number of MTP layers at a key, def where it is absent or null. What is
// refused is not built.
func (r *reader) nextAt(key string, def int) int {
	n := r.opt(key, def)
	if n > maxLayers {
		r.fail(problem.BadValue, key, "more than %d layers", maxLayers)
		return 0
	}
	return n
}

// draft are the checkpoint's MTP layers: each a decoder layer of the last kind, or of its
// own, behind a projection of the last hidden state and the next token's embedding, both
// normalised, and a norm before the head (DeepSeek-V3, arXiv 2412.19437, section 2.2; vllm
// deepseek_mtp.py). Embedding and head are the model's own.
func (d decoder) draft(hidden int) []*Layer {
	if d.nextN == 0 {
		return nil
	}
	k := layerKind{form: d.nextForm, window: d.nextWindow, sparse: d.experts.count > 0 && !d.nextDense, indexed: d.indexed != nil}
	join := d.nextJoin
	if join == nil {
		join = deepSeekJoin(hidden)
	}
	return repeat(&Layer{Caches: d.caches(k), Params: append(d.params(k, hidden), join...)}, d.nextN)
}

// deepSeekJoin is what joins hidden state and embedding in DeepSeek's MTP layers.
func deepSeekJoin(hidden int) []Param {
	return []Param{
		{Name: "eh_proj.weight", Part: Other, Rows: whole(hidden), Cols: whole(2 * hidden)},
		norm("enorm", hidden), norm("hnorm", hidden), norm("shared_head.norm", hidden),
	}
}

// shardedJoin is what joins hidden state and embedding where the projection is divided
// over ranks (vllm qwen3_next_mtp.py, exaone_moe_mtp.py).
func shardedJoin(hidden int) []Param {
	return []Param{
		linear("fc", Other, sharded(hidden, "hidden_size"), whole(2*hidden)),
		norm("pre_fc_norm_hidden", hidden), norm("pre_fc_norm_embedding", hidden), norm("norm", hidden),
	}
}
