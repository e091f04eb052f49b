package model

import "headcount/checkpoint"

// A class is what Transformers' configuration class of one model_type adds to a file.
type class struct {
	alias      map[string]string  // attribute → key of the file
	defaults   *checkpoint.Object // attribute or key → default
	subConfigs map[string]string  // attribute → model_type of the nested config
	textAttr   string             // the nested config that holds the text model
}

func lookupClass(modelType string) (class, bool) { return class{}, false }
