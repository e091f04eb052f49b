package golden

import (
	"os"
	"path/filepath"
	"strings"

	"headcount/checkpoint"
)

// Source reads the config of a row from the corpus' folder, with the side file that lies
// beside it.
func Source(dir, file string) (*checkpoint.Source, error) {
	name := filepath.Join(dir, "configs", file)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	quant, err := os.ReadFile(strings.TrimSuffix(name, ".json") + ".hf_quant.json")
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return checkpoint.FromBytes(strings.TrimSuffix(file, ".json"), checkpoint.Files{Config: data, HFQuant: quant})
}
