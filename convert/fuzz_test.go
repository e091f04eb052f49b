package convert

import (
	"cmp"
	"errors"
	"maps"
	"testing"
	"testing/fstest"

	"headcount/problem"
)

// Whatever a config says, the checkpoint is converted as planned or refused in one line, and
// nothing panics.
func FuzzNew(f *testing.F) {
	var tensors []fstest.MapFS
	for _, form := range forms() {
		folder, err := form.make("BF16", 1, false).Folder()
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(form.config), form.n, uint8(len(tensors)))
		tensors = append(tensors, folder)
	}
	f.Fuzz(func(t *testing.T, config []byte, n int, which uint8) {
		folder := maps.Clone(tensors[int(which)%len(tensors)])
		folder["config.json"] = &fstest.MapFile{Data: config}
		c, err := New(folder, "IN", Options{KVHeads: n})
		if err != nil {
			if _, ok := errors.AsType[*problem.Error](err); !ok {
				t.Fatalf("not a problem: %v", err)
			}
			return
		}
		if c.OldHeads%n != 0 || c.NewHeads != n {
			t.Fatalf("%d heads to %d", c.OldHeads, c.NewHeads)
		}
		written := 0
		for i := range c.shards {
			err = cmp.Or(err, c.poolFile(&c.shards[i], func(data []byte) error { written += len(data); return nil }))
		}
		if err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		for _, change := range c.Changes {
			want += change.Bytes
		}
		if int64(written) != want {
			t.Fatalf("%d bytes pooled, %d planned", written, want)
		}
	})
}
