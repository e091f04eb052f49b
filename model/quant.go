package model

import (
	"strings"

	"headcount/checkpoint"
)

// Quantization is how the checkpoint says its weights are stored: quant_method in lower
// case, "" for unquantised or for a block that names none. The object is the block that
// says so, nil without one.
//
// It is quantization_config of config.json, else hf_quant_config.json beside it, else
// compression_config, else the text config's of either name; a block that ModelOpt wrote
// names an algorithm instead of a method (vllm transformers_utils/config.py get_config,
// model_arch_config_convertor.py get_quantization_config).
func (c *Config) Quantization() (method string, block *checkpoint.Object) {
	for _, o := range []*checkpoint.Object{
		c.top.object.Dict("quantization_config"), c.hfQuant, c.top.object.Dict("compression_config"),
		c.text.object.Dict("quantization_config"), c.text.object.Dict("compression_config"),
	} {
		if o != nil {
			return quantMethod(o), o
		}
	}
	return "", nil
}

// quantBlock is the rows of a block of quantised weights that share a scale; 0 for none.
func (r *reader) quantBlock() int {
	_, block := r.Quantization()
	size, _ := block.Get("weight_block_size")
	if list := size.List(); len(list) > 0 {
		if n, _ := list[0].Int(); 0 < n && n <= maxSize {
			return int(n)
		}
	}
	return 0
}

func quantMethod(block *checkpoint.Object) string {
	details := block.Dict("quantization")
	_, legacy := details.Get("modelopt_quant_config")
	if legacy || block.Dict("producer").Text("name") == "modelopt" {
		switch strings.ToUpper(details.Text("quant_algo")) {
		case "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO":
			return "modelopt"
		case "NVFP4":
			return "modelopt_fp4"
		case "MIXED_PRECISION":
			return "modelopt_mixed"
		}
	}
	return strings.ReplaceAll(strings.ToLower(block.Text("quant_method")), "compressed_tensors", "compressed-tensors")
}
