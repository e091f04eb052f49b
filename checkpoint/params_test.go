package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headcount/internal/shared"
	"headcount/problem"
)

// differences lists where got, which FromParams made, is not what vLLM's config object
// holds. The object has Whisper's defaults besides, and what vLLM left of nested keys.
func differences(got, want *Object, path string, defaults bool) (out []string) {
	ignored := func(key string) bool {
		return slices.Contains([]string{"moe", "yarn", "multimodal", "vision_encoder", "is_encoder_decoder"}, key)
	}
	for _, key := range got.Keys() {
		g, _ := got.Get(key)
		w, ok := want.Get(key)
		switch {
		case ignored(key) || g.Kind() == Null && !ok:
		case g.Kind() == Dict && strings.HasSuffix(key, "_config") && key != "quantization_config":
			out = append(out, differences(g.Dict(), w.Dict(), key+".", key == "audio_config")...)
		case key == "rope_parameters" || key == "quantization_config": // keys in any order
			out = append(out, differences(g.Dict(), w.Dict(), path+key+".", false)...)
		case !bytes.Equal(g.AppendJSON(nil), w.AppendJSON(nil)):
			out = append(out, path+key+": "+string(g.AppendJSON(nil))+", vLLM has "+string(w.AppendJSON(nil)))
		}
	}
	for _, key := range want.Keys() {
		if _, ok := got.Get(key); !ok && !ignored(key) && !defaults {
			out = append(out, path+key+": missing")
		}
	}
	return out
}

// vLLM's own answers for params.json files of each kind; see testdata/params.py.
func TestFromParamsAsVLLM(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "params.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	refusals := 0
	for line := range bytes.Lines(data) {
		row, _, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		name, params, want := row.Text("name"), row.Dict("params"), row.Dict("config")
		before := string(params.AppendJSON(nil))
		got, err := FromParams(params)
		if string(params.AppendJSON(nil)) != before {
			t.Errorf("%s: params changed", name)
		}
		if want == nil {
			refusals++
			if _, ok := errors.AsType[*problem.Error](err); !ok {
				t.Errorf("%s: accepted, vLLM refuses: %s", name, row.Text("refused"))
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, d := range differences(got, want, "", false) {
			t.Errorf("%s: %s", name, d)
		}
	}
	if refusals == 0 {
		t.Error("no refusal among the rows")
	}
}

func TestFromParamsErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`"sliding_window": [null, 1024, 2048]`, "sliding_window = 2048: widths must be one positive number or null"},
		{`"sliding_window": "4096"`, `sliding_window = "4096": neither a width nor a list of widths`},
		{`"sliding_window": 4096, "layer_types": []`, "sliding_window = 4096: excludes layer_types"},
		{`"sliding_window": [1024, null, null]`, "n_layers = 40: not divisible by the 3 widths of sliding_window"},
		{`"sliding_window": 4096, "n_layers": 9e15`, "n_layers = 9e+15: not a number of layers"},
		{`"quantization": {"qformat_weight": "int4"}`, "quantization = object of 1 keys: neither fp8_e4m3 weights nor compressed-tensors"},
		{`"quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": 8}`, "quantization.qscheme_act = 8: neither NO_SCALES nor TENSOR"},
		{`"yarn": {"gamma": 1}`, "yarn.gamma = 1: not a key of yarn that vLLM reads"},
		{`"yarn": {"factor": "x"}`, `yarn.factor = "x": not a number`},
		{`"yarn": {"original_max_position_embeddings": 0.5}`, "yarn.original_max_position_embeddings = 0.5: not a whole number"},
		{`"qk_nope_head_dim": 128`, "llama_4_scaling: not given; a model with shared experts or a latent needs it"},
		{`"llama_4_scaling": {"beta": 1}`, "llama_4_scaling.original_max_position_embeddings: not given"},
		{`"vision_encoder": {"a": 1}, "multimodal": {"whisper_model_args": {"encoder_args": {"dim": 1}}}`, "multimodal: both a vision and an audio encoder"},
		{`"multimodal": {"whisper_model_args": {"encoder_args": {"dim": 1}}}`,
			"multimodal.whisper_model_args.encoder_args.audio_encoding_args.num_mel_bins: not given"},
	} {
		params, _, err := Parse([]byte(`{"dim": 4096, "n_layers": 40, ` + tt.in + `}`))
		if err != nil {
			t.Fatal(err)
		}
		config, err := FromParams(params)
		if config != nil || err == nil || err.Error() != tt.want {
			t.Errorf("%s:\n got %v\nwant %s", tt.in, err, tt.want)
		}
	}
}

// The corpus holds one params.json; its fields are known by heart.
func TestFromParamsPixtral(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(shared.Dir(t), "configs", "mistralai--Pixtral-12B-2409.params.json"))
	if err != nil {
		t.Fatal(err)
	}
	src, err := FromBytes("Pixtral-12B-2409", Files{Config: data})
	if err != nil {
		t.Fatal(err)
	}
	if src.Params == nil || src.Config.Text("model_type") != "pixtral" {
		t.Errorf("not taken as params.json: %s", src.Config.AppendJSON(nil))
	}
	textConfig := src.Config.Dict("text_config")
	for key, want := range map[string]int64{
		"hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8,
		"head_dim": 128, "intermediate_size": 14336, "max_position_embeddings": 131072, "vocab_size": 131072,
	} {
		v, _ := textConfig.Get(key)
		if n, ok := v.Int(); !ok || n != want {
			t.Errorf("%s = %v, want %d", key, v.Any(), want)
		}
	}
}

func FuzzFromParams(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "params.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		row, _, err := Parse(line)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(row.Dict("params").AppendJSON(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		params, _, err := Parse(data)
		if err != nil {
			return
		}
		config, err := FromParams(params)
		if _, ok := errors.AsType[*problem.Error](err); err != nil && !ok {
			t.Fatalf("not a problem: %v", err)
		}
		if err == nil && config.Len() == 0 {
			t.Fatal("an empty config")
		}
	})
}
