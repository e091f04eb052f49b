package verify

import "headcount"

func (c *comparison) adviseVLLM(f *fit)              {}
func (c *comparison) adviseSGLang(*headcount.Report) {}
