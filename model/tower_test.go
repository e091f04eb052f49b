package model_test

import (
	"fmt"
	"strings"
	"testing"

	"headcount/checkpoint"
	"headcount/model"
)

// towerOf resolves a config and sums the elements of its towers, whole model.
func towerOf(t *testing.T, config string) (elements int64, m *model.Model) {
	t.Helper()
	src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = model.Resolve(src); err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Outer {
		if p.Part == model.Tower {
			elements += int64(p.Rows.Size) * int64(max(p.Cols.Size, 1)) * int64(max(p.Times, 1))
		}
	}
	return elements, m
}

// Towers by arithmetic: what each module has, and how often.
func TestTowers(t *testing.T) {
	const text = `"text_config": {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 100}`
	const clip = `"vision_config": {"model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 128, "num_hidden_layers": 4,
		"num_attention_heads": 4, "image_size": 28, "patch_size": 14}`
	layer := int64(4*(32*32+32) + 32*128 + 128 + 128*32 + 32 + 4*32)
	embeddings := int64(32 + 3*14*14*32 + (2*2+1)*32)
	for _, tt := range []struct {
		name, config string
		want         int64
	}{
		// The last but one layer's states are taken, so that the last is not built.
		{"CLIP to a layer", `{"architectures": ["LlavaNextVideoForConditionalGeneration"], "model_type": "llava_next_video", "vision_feature_layer": -2, ` + text + "," + clip + `}`,
			embeddings + 2*32 + 3*layer + (32*64 + 64) + (64*64 + 64)},
		{"CLIP twice", `{"architectures": ["VideoLlavaForConditionalGeneration"], "model_type": "video_llava", ` + text + "," + clip + `}`,
			2*(embeddings+2*32+4*layer+2*32) + (32*64 + 64) + (64*64 + 64)},
		{"Qwen2-VL", `{"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
			"vision_config": {"embed_dim": 32, "hidden_size": 64, "num_heads": 4, "depth": 3, "mlp_ratio": 4, "patch_size": 14}}`,
			3*2*14*14*32 + 3*layer + 2*32 + (128*128 + 128) + (128*64 + 64)},
	} {
		got, m := towerOf(t, tt.config)
		if m.WeightsUnknown != "" || got != tt.want {
			t.Errorf("%s: %d elements (%s), want %d", tt.name, got, m.WeightsUnknown, tt.want)
		}
	}
}

// A tower whose config is of no use leaves parameters unknown; the model is still resolved.
func TestTowersUnknown(t *testing.T) {
	const llava = `{"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "vision_config": %s}`
	for config, want := range map[string]string{
		fmt.Sprintf(llava, `{"model_type": "clip_vision_model", "hidden_size": 9007199254740993}`):     "vision_config.hidden_size = 9007199254740993: greater than 131072",
		fmt.Sprintf(llava, `{"model_type": "dinov2"}`):                                                 "not an encoder that is known",
		`{"architectures": ["NewVLForConditionalGeneration"], "text_config": {"model_type": "llama"}}`: "towers beside the text model",
	} {
		_, m := towerOf(t, config)
		if !strings.Contains(m.WeightsUnknown, want) || !m.Towers || len(m.Layers) == 0 {
			t.Errorf("%s: %q with %d layers, want %q", config, m.WeightsUnknown, len(m.Layers), want)
		}
	}
}
