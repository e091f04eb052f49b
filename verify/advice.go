package verify

func (c *comparison) adviseVLLM(f *fit) {}
func (c *comparison) sglang() error     { return nil }
func (c *comparison) llama() error      { return nil }
func (c *comparison) trtllm() error     { return nil }
