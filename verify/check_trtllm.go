package verify

import (
	"fmt"

	"headcount/units"
)

// trtllm compares a start of TensorRT-LLM: the bytes of its pool with those of its tokens,
// and the tokens with its blocks.
func (c *comparison) trtllm() error {
	req := c.request
	req.Engine = "" // a cell is a cell: of one rank, in the cache's dtype
	plan, err := c.plan(req)
	if err != nil {
		return err
	}
	c.report.Plan, c.report.Model = plan, plan.Model.Name
	tokens, haveTokens := c.seen.Int("tokens")
	blocks, haveBlocks := c.seen.Int("num_blocks")
	each, haveEach := c.seen.Int("tokens_per_block")
	if haveTokens && haveBlocks && haveEach {
		c.exact("tokens", blocks*each, tokens, fmt.Sprintf("%s blocks of %d tokens", units.Group(blocks), each))
	}
	if size, ok := c.seen.Size("kv_bytes"); ok && haveTokens && len(plan.Ranks) > 0 {
		per := plan.Ranks[0].BytesPerToken
		c.within("kv_bytes", tokens*per, size, fmt.Sprintf("%s tokens × %s a token of one rank", units.Group(tokens), units.Bytes(per)))
	}
	return nil
}
