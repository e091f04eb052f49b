// Package checkpoint reads what a checkpoint says of itself: config.json and its side
// files, tensor headers. It does not know what a field means.
package checkpoint

// A Source is one checkpoint as far as it was read. Config is never nil.
type Source struct {
	Name       string   // as the caller named it; the file's stem or folder
	Config     *Object  // config.json
	HFQuant    *Object  // hf_quant_config.json, or nil
	Params     *Object  // params.json (Mistral's own format), or nil
	Duplicates []string // keys of config.json given more than once
	Tensors    []Tensor // from safetensors headers or index, when they were read
}

// A Tensor is one entry of a checkpoint's headers.
type Tensor struct {
	Name  string
	DType string // safetensors' name, "BF16"
	Shape []int64
	File  string
}
