package difftest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"headcount"
	"headcount/checkpoint"
	"headcount/internal/agree"
	"headcount/internal/corpus"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
	"headcount/internal/strict"
)

// Judge holds our plan of a drawn row to the engine's answer and returns where it differs.
// A row in which the oracle failed, not the engine, does not count.
func Judge(card *scorecard.Card, line []byte) ([]scorecard.Miss, error) {
	line = strict.WithNumbers(line)
	var head struct{ ID string }
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, err
	}
	if strings.HasPrefix(head.ID, "sglang/") {
		row := new(golden.SGLangRow)
		if err := json.Unmarshal(line, row); err != nil {
			return nil, err
		}
		return judgeSGLang(card, row), nil
	}
	row := new(golden.VLLMRow)
	if err := json.Unmarshal(line, row); err != nil {
		return nil, err
	}
	return judgeVLLM(card, row), nil
}

func judgeSGLang(card *scorecard.Card, row *golden.SGLangRow) []scorecard.Miss {
	if row.OracleLimit || row.Error != nil && (artefact(row.Error.Message) || standIn(row)) {
		return nil
	}
	if row.ConfigClass == "inferred" || row.ConfigClass != "" && !bytes.Contains(row.Config, []byte(`"auto_map"`)) {
		return nil // read by a class that the oracle took from a name, or from an earlier draw's auto_map
	}
	row.Log = kept(row.Log)
	kind := "stopped before the model"
	if row.Resolved != nil {
		kind = row.Resolved.ModelType
	}
	r := card.Row(row.ID, kind)
	models := corpus.Corpus{row.File: {Config: row.Config, HFQuant: row.HFQuant}}
	if row.DraftConfig != nil {
		models[row.Layout.DraftID+".json"] = checkpoint.Files{Config: row.DraftConfig}
	}
	agree.SGLang(r, &headcount.Planner{Resolver: models}, row)
	return r.Done()
}

// standIn reports whether the class that the oracle puts in the place of a checkpoint's own
// code lacked what that code has. The oracle says so of the first row of a class alone.
func standIn(row *golden.SGLangRow) bool {
	return row.ConfigClass == "generic" && slices.Contains([]string{"AttributeError", "KeyError", "TypeError"}, row.Error.Class)
}

// kept are the lines of a log that a report gives.
func kept(log []string) []string {
	return slices.DeleteFunc(log, func(line string) bool {
		return !slices.ContainsFunc(golden.SGLangKept, func(word string) bool { return strings.Contains(line, word) })
	})
}

func judgeVLLM(card *scorecard.Card, row *golden.VLLMRow) []scorecard.Miss {
	if row.Error != nil && artefact(row.Error.Message) {
		return nil
	}
	planner := &headcount.Planner{Resolver: corpus.Corpus{row.File: {Config: row.Config, HFQuant: row.HFQuant}}}
	if row.RemoteConfig == "generic" && agree.WantsCode(planner, row) {
		return nil
	}
	kind := "stopped before the model"
	if row.Resolved != nil {
		kind = row.Resolved.TextModelType
	}
	r := card.Row(row.ID, kind)
	agree.VLLM(r, planner, row)
	return r.Done()
}

// artefacts are answers that say nothing of an installed engine with a real checkpoint:
// failures of the oracles, and of drawn values that no checkpoint has.
var artefacts = []struct {
	message *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`^oracle: `), "the oracle says itself that it does not go further"},
	{regexp.MustCompile(`^\d+ s$|^status \d+, \d+ bytes$`), "the oracle's process ran out of time or memory"},
	{regexp.MustCompile(`has no attribute '_draft_window_size'`), "SGLang's oracle builds no model, whose constructor sets it"},
	{regexp.MustCompile(`upgrade to FlashInfer`), "FlashInfer, of which SGLang's own requirement is newer, is not installed beside the oracle"},
	{regexp.MustCompile(`^module 'torch' has no attribute`), "a dtype that PyTorch does not have"},
	{regexp.MustCompile(`validator 'validate_rope'`), "lists of rotary factors, drawn heads apart from them"},
	{regexp.MustCompile("^\"?Missing required keys in `rope_parameters`"), "a drawn kind of scaling that lacks the file's other fields"},
	{regexp.MustCompile(`^'NoneType' object has no attribute`), "a nested config that lost the name of its class"},
	{regexp.MustCompile(`Config' object has no attribute|^unsupported operand type|^'num_img_tokens'$`), "a field left out that the class has no default for"},
	{regexp.MustCompile(`^Padding_idx must be within num_embeddings`), "a vocabulary smaller than the padding token's number"},
	{regexp.MustCompile(`^Attempting to broadcast a dimension|Found conflicts between 'rope_type=`), "a kind of rotary scaling drawn beside another's fields"},
	{regexp.MustCompile(`^'full_attention' is not in list|^Unsupported head_dim for fused quant|^Workers disagree on supported KV cache layouts`), "Gemma 4 without full layers, DeepSeek-V4 with another head or a stage without compression"},
	{regexp.MustCompile(`attempted to run this operator with Meta tensors`), "a comparison of values, which the oracle's tensors do not have"},
	{regexp.MustCompile(`^Tensor.item\(\) cannot be called on meta tensors`), "a value of a tensor that the oracle has on no device"},
	{regexp.MustCompile(`^expert parallel group is not initialized`), "a model of experts that lost them"},
}

func artefact(message string) bool {
	for _, a := range artefacts {
		if a.message.MatchString(message) {
			return true
		}
	}
	return false
}
