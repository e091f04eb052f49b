package vllm

import (
	"slices"
	"strings"

	"headcount/model"
	"headcount/problem"
)

// A drafting says where the layers of a speculative method's draft come from.
type drafting uint8

const (
	noLayers   drafting = iota // it drafts from the text
	ownLayers                  // the checkpoint's own MTP layers
	modelOfOwn                 // a draft model of its own
)

// draftings are the methods whose caches are known (config/speculative.py,
// SpeculativeMethod). Names that end in _mtp are mtp.
var draftings = map[string]drafting{
	"ngram": noLayers, "ngram_gpu": noLayers, "suffix": noLayers,
	"mtp":   ownLayers,
	"eagle": modelOfOwn, "eagle3": modelOfOwn, "dflash": modelOfOwn, "draft_model": modelOfOwn,
}

// notPlanned are methods that the engine has and whose caches are not known here.
var notPlanned = []string{"extract_hidden_states", "custom_class", "dspark"}

// resolveDraft takes the speculative configuration (config/speculative.py). The draft's
// layers join the target's on the last stage.
func (s *setup) resolveDraft() *problem.Error {
	spec := s.opt.Speculative
	if spec == nil {
		return nil
	}
	method := spec.Method
	switch {
	case method == "" && s.opt.Draft != nil:
		method = "draft_model"
	case strings.HasSuffix(method, "_mtp"):
		method = "mtp"
	}
	from, known := draftings[method]
	s.drafts, s.drafting = int64(spec.Tokens), from
	switch {
	case method == "":
		return problem.New(problem.MissingField, "speculative.method", nil, "missing, and no draft model is given").
			WithHint("mtp, eagle, eagle3, dflash, draft_model, ngram or suffix")
	case slices.Contains(notPlanned, method):
		return problem.New(problem.NotKnown, "speculative.method", method, "what this method caches is not known here")
	case !known:
		return problem.New(problem.BadValue, "speculative.method", method, "not a method of the engine").
			WithHint("mtp, eagle, eagle3, dflash, draft_model, ngram or suffix")
	case s.drafts < 0 || s.drafts > 1<<16:
		return problem.New(problem.BadValue, "speculative.num_speculative_tokens", spec.Tokens, "not a number of draft tokens")
	case from == ownLayers:
		return s.resolveMTP(spec.Tokens)
	case from == modelOfOwn && s.opt.Draft == nil:
		return problem.New(problem.MissingField, "speculative.model", nil, "%s drafts with a model of its own, and none is given", method).
			WithHint("name the draft model, or give its config as draft_config")
	case s.drafts == 0:
		return problem.New(problem.MissingField, "speculative.num_speculative_tokens", nil, "%s needs the number of tokens to draft", method).
			WithHint("--num-speculative-tokens N")
	}
	var layers []*model.Layer
	if from == modelOfOwn {
		layers = s.opt.Draft.Layers
	}
	s.v = s.v.withDraft(layers)
	return nil
}

// resolveMTP drafts with the checkpoint's own layers.
func (s *setup) resolveMTP(asked int) *problem.Error {
	if !s.v.mtp {
		return problem.New(problem.Unsupported, "speculative.method", "mtp", "Unsupported speculative method: 'mtp'").
			WithHint("the checkpoint has no draft layers that the engine can load")
	}
	for _, key := range draftCounts {
		if s.v.model.Config.IsNull(key) {
			return problem.New(problem.BadValue, s.v.field(key), nil, "null, and the draft's layers are counted by it").
				WithHint("the number of the checkpoint's draft layers, or a plan without a draft")
		}
	}
	if s.drafts == 0 {
		s.drafts = int64(max(len(s.v.model.Draft), 1))
		return nil
	}
	if n, ok := s.v.predicts(); ok && s.drafts > n && (n <= 0 || s.drafts%n != 0) {
		return problem.New(problem.BadValue, "speculative.num_speculative_tokens", asked, "must be divisible by n_predict=%d", n).
			WithHint("a multiple of the checkpoint's draft layers")
	}
	if s.v.inkling() && int64(len(s.v.model.Draft)) > s.drafts { // a layer for each token (models/inkling/nvidia/mtp.py)
		s.v = s.v.withDraft(s.v.model.Draft[:s.drafts])
	}
	return nil
}

// checkDraft refuses what the class of the checkpoint's own draft refuses, which is built after
// the target's (models/nemotron_h_mtp.py).
func (s *setup) checkDraft() *problem.Error {
	n, _ := s.v.predicts()
	if s.drafting != ownLayers || s.v.model.Family != "nemotron_h" || n == 1 {
		return nil
	}
	return problem.New(problem.Unsupported, s.v.field("num_nextn_predict_layers"), n, "Only one MTP layer is supported for NemotronH-MTP").
		WithHint("plan without a draft")
}

// inkling tells that mtp_config counts the draft layers (models/inkling).
func (v *view) inkling() bool { return v.model.Family == "inkling" }

// withDraft is the view with other draft layers than the checkpoint's own.
func (v *view) withDraft(layers []*model.Layer) *view {
	out := *v
	last := int32(-1)
	for _, r := range v.runs {
		last = max(last, r.layer)
	}
	out.layers = slices.Clone(v.layers[:last+1])
	out.draft = out.runsOf(layers)
	return &out
}
