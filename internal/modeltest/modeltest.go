// Package modeltest resolves configs that tests carry.
package modeltest

import (
	"testing"

	"headcount/checkpoint"
	"headcount/model"
)

// Resolve is the model of a config.json, which must be one.
func Resolve(t testing.TB, config string) *model.Model {
	t.Helper()
	src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Resolve(src)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
