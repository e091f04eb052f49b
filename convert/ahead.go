package convert

import (
	"context"

	"headcount/checkpoint"
)

// parts is how many parts of tensors are pooled ahead of what is written to a file, 64 KiB
// each in 16 bits: as much as the keys and values of a large layer with 8 KV heads.
const parts = 256

// A pooler pools tensors in the order of their files, ahead of who writes them.
type pooler struct {
	cancel context.CancelFunc
	ready  chan part
	free   chan []byte
}

// A part is the next bytes of a tensor, or why there are none.
type part struct {
	data []byte
	err  error
}

// ahead starts pooling what changes in a file.
func (c *Conversion) ahead(ctx context.Context, s *checkpoint.Shard) *pooler {
	ctx, cancel := context.WithCancel(ctx)
	p := &pooler{cancel: cancel, ready: make(chan part, parts), free: make(chan []byte, parts)}
	go func() {
		defer close(p.ready)
		if err := c.poolFile(s, func(data []byte) error { return p.send(ctx, part{data: data}) }); err != nil {
			p.send(ctx, part{err: err})
		}
	}()
	return p
}

// stop ends the work, whether or not all of it is done.
func (p *pooler) stop() {
	p.cancel()
	for range p.ready {
	}
}

// send hands on a copy of a part.
func (p *pooler) send(ctx context.Context, next part) error {
	select {
	case buffer := <-p.free:
		next.data = append(buffer[:0], next.data...)
	default:
		next.data = append([]byte(nil), next.data...)
	}
	select {
	case p.ready <- next:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// each passes the next n bytes to write, part by part.
func (p *pooler) each(n int64, write func([]byte) error) error {
	for n > 0 {
		next, ok := <-p.ready
		switch {
		case !ok:
			return context.Canceled
		case next.err != nil:
			return next.err
		}
		n -= int64(len(next.data))
		if err := write(next.data); err != nil {
			return err
		}
		select {
		case p.free <- next.data:
		default:
		}
	}
	return nil
}

// poolFile pools what changes in a file, in the order of its data. Weights of a layer are
// read once.
func (c *Conversion) poolFile(s *checkpoint.Shard, write func([]byte) error) error {
	r := &reader{folder: c.folder}
	defer r.Close()
	layer, counts := -1, [][]float32(nil)
	for _, t := range s.Tensors {
		change := c.byTensor[t.Name]
		if change == nil {
			continue
		}
		if change.layer != layer {
			var err error
			if counts, err = c.weights(r, c.layers[change.layer]); err != nil {
				return err
			}
			layer = change.layer
		}
		if err := c.pool(r, change, counts, write); err != nil {
			return err
		}
	}
	return nil
}
