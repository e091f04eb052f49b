package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"headcount/problem"
	"headcount/units"
)

// Write makes the folder out, which must not exist. It writes beside it, under a name that
// ends in ".partial" and a number, reads the result back and renames it at the end: killed
// half-way, it leaves no folder out. Any error removes what was written. progress, which
// may be nil, is told the bytes that are done.
func (c *Conversion) Write(ctx context.Context, out string, progress func(done int64)) error {
	out = filepath.Clean(out)
	if err := vacant(out); err != nil {
		return err
	}
	partial := fmt.Sprintf("%s.partial-%08x", out, rand.Uint32())
	if err := os.Mkdir(partial, 0o777); err != nil {
		return unwritable(out, err)
	}
	w := &writer{Conversion: c, dir: partial, progress: progress}
	err := w.all(ctx)
	if err == nil {
		err = c.verify(partial)
	}
	if err == nil {
		if err = vacant(out); err == nil {
			err = os.Rename(partial, out)
		}
	}
	if err != nil {
		os.RemoveAll(partial) // what is left then has a name that says so
		return c.explain(out, err)
	}
	return nil
}

// vacant refuses a name that is taken.
func vacant(out string) error {
	if _, err := os.Lstat(out); err == nil {
		return problem.New(problem.BadValue, "OUT", out, "exists, and nothing is overwritten").WithHint("name a folder that does not exist yet")
	}
	return nil
}

func unwritable(out string, err error) error {
	return problem.New(problem.Unreadable, "OUT", out, "%v", cause(err))
}

// explain turns the system's word into a problem of the output.
func (c *Conversion) explain(out string, err error) error {
	if _, ok := errors.AsType[*problem.Error](err); ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return problem.New(problem.Unreadable, "OUT", out, "%v", cause(err)).
		WithHint("it takes %s; what was written of it is removed", units.Bytes(c.Bytes))
}

// verify reads the result back: a checkpoint with the heads that were asked for.
func (c *Conversion) verify(dir string) error {
	_, err := New(os.DirFS(dir), c.Name, Options{KVHeads: c.NewHeads})
	return err
}

// filesAtOnce is how many files are written together: one core does not fill a disk that is
// fast, nor memory that stands in for it.
const filesAtOnce = 2

// A writer writes the files of one conversion into a folder.
type writer struct {
	*Conversion
	dir string

	mu       sync.Mutex
	progress func(done int64)
	done     int64
}

// all writes the files. The first error ends the work on others.
func (w *writer) all(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan output)
	var workers sync.WaitGroup
	for range filesAtOnce {
		workers.Go(func() {
			for f := range todo {
				if err := w.file(ctx, f); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, f := range w.files {
		if ctx.Err() != nil {
			break
		}
		todo <- f
	}
	close(todo)
	workers.Wait()
	return context.Cause(ctx)
}

// file writes one file. That it could be closed is part of it: a full disk may say so only then.
func (w *writer) file(ctx context.Context, f output) (err error) {
	name := filepath.Join(w.dir, filepath.FromSlash(f.name))
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	to, err := w.create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	one := &fileWriter{writer: w, ctx: ctx, reader: &reader{folder: w.folder}}
	defer one.reader.Close()
	switch {
	case f.shard != nil:
		return one.shard(to, f)
	case f.text != nil:
		return one.write(to, f.text)
	}
	return one.copy(to, f.name, 0, f.size)
}

// A fileWriter writes one file of them.
type fileWriter struct {
	*writer
	ctx    context.Context
	reader *reader
}

// shard writes a shard whose tensors change in part; what lies between them is copied in
// one go, while those to come are pooled.
func (w *fileWriter) shard(to io.Writer, f output) error {
	pooled := w.ahead(w.ctx, f.shard)
	defer pooled.stop()
	if err := w.write(to, f.head); err != nil {
		return err
	}
	begin, end := int64(0), int64(0) // of tensors that wait to be copied
	for _, t := range f.shard.Tensors {
		change := w.byTensor[t.Name]
		if change == nil {
			if begin == end {
				begin = t.Begin
			}
			end = t.Begin + t.Bytes
			continue
		}
		if err := w.copy(to, f.name, begin, end-begin); err != nil {
			return err
		}
		begin, end = 0, 0
		if err := pooled.each(change.Bytes, func(data []byte) error { return w.write(to, data) }); err != nil {
			return err
		}
	}
	return w.copy(to, f.name, begin, end-begin)
}

// copySize is how much is copied between two looks at the context.
const copySize = 32 << 20

// copy writes n bytes of a file of the checkpoint from begin on. Where both are files of
// the system it moves the bytes itself.
func (w *fileWriter) copy(to io.Writer, name string, begin, n int64) error {
	if n == 0 {
		return nil
	}
	if err := w.reader.open(name); err != nil {
		return err
	}
	if _, err := w.reader.file.Seek(begin, io.SeekStart); err != nil {
		return unreadable(name, err)
	}
	for n > 0 {
		part := min(n, copySize)
		if _, err := io.CopyN(to, w.reader.file, part); err != nil {
			if errors.Is(err, io.EOF) {
				return problem.New(problem.Unreadable, "", nil, "%s: became shorter while it was read", name)
			}
			return err
		}
		if err := w.advance(part); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// write writes data that is in memory.
func (w *fileWriter) write(to io.Writer, data []byte) error {
	if _, err := to.Write(data); err != nil {
		return err
	}
	return w.advance(int64(len(data)))
}

// advance tells the progress, and stops when the context says so.
func (w *fileWriter) advance(n int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done += n; w.progress != nil {
		w.progress(w.done)
	}
	return w.ctx.Err()
}
