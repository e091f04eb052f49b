package vllm

import (
	"strings"

	"headcount/model"
)

// Traits are what the engine's registry says of a model's class.
type traits struct {
	pooling       bool // served by the pooling runner
	encoderOnly   bool // attends in both directions and caches nothing
	seqPooling    string
	tokPooling    string
	hybrid        bool // layers that keep a state beside attention
	attentionFree bool
	encoderDecode bool
	pipelines     bool
	multimodal    bool
	transformers  bool // runs the Transformers class
	mtp           bool // has a class for the checkpoint's own draft head
}

// traitsOf looks a model up.
func traitsOf(m *model.Model) traits {
	t := traits{pipelines: true, seqPooling: "LAST", tokPooling: "ALL", mtp: len(m.Draft) > 0}
	t.multimodal = m.TextType != m.ModelType || strings.HasSuffix(m.Architecture, "ForConditionalGeneration")
	var state, attention bool
	for _, l := range m.Layers {
		for i := range l.Caches {
			switch l.Caches[i].Kind {
			case model.Recurrent:
				state = true
			case model.Cross:
				t.encoderDecode = true
			case model.EncoderOnly:
				t.encoderOnly, t.pooling = true, true
			default:
				attention = true
			}
		}
	}
	t.hybrid, t.attentionFree = state && attention, state && !attention
	return t
}
