package hub

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"headcount/problem"
)

// Sizes of ranged requests.
const (
	firstSpan = 256 << 10   // bytes; the header of most shards fits
	maxSpan   = 16 << 20    // of one request for more
	maxPrefix = 104_857_600 // of a file; no header that is taken is longer
)

// A repository is a model's files at one commit, as a folder. A file's beginning is asked
// for when the file is first looked at, and no byte twice.
type repository struct {
	client *Client
	ctx    context.Context // of the call that opened it
	id     string
	commit string
	files  map[string]bool

	mu     sync.Mutex
	opened map[string]*file // looked at by Stat, and not opened since
}

// HeadersRead passes progress on.
func (r *repository) HeadersRead(done, files int) {
	if r.client.Progress != nil {
		r.client.Progress(r.id, done, files)
	}
}

// Open opens a file, or the folder itself.
func (r *repository) Open(name string) (fs.File, error) {
	if name == "." {
		return &listing{repo: r}, nil
	}
	r.mu.Lock()
	f := r.opened[name]
	delete(r.opened, name)
	r.mu.Unlock()
	if f != nil {
		return f, nil
	}
	return r.begin(name)
}

// Stat looks at a file. The file stays open for the call of Open that follows.
func (r *repository) Stat(name string) (fs.FileInfo, error) {
	if name == "." {
		return info{".", 0, fs.ModeDir}, nil
	}
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened[name] = f.(*file)
	return f.Stat()
}

// begin reads a file's beginning.
func (r *repository) begin(name string) (*file, error) {
	if !r.files[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f := &file{repo: r, name: name}
	return f, f.more(firstSpan)
}

// A file is a remote file of which a prefix has been read.
type file struct {
	repo   *repository
	name   string
	size   int64
	prefix []byte
	pos    int64
}

// address is where the file is.
func (f *file) address() string {
	r := f.repo
	parts := strings.Split(f.name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return r.client.endpoint() + "/" + r.id + "/resolve/" + r.commit + "/" + strings.Join(parts, "/")
}

// more reads the next n bytes.
func (f *file) more(n int64) error {
	have := int64(len(f.prefix))
	if have+n > maxPrefix {
		n = maxPrefix - have
	}
	if n <= 0 {
		return problem.New(problem.BadValue, "", nil, "more than %d bytes of header", maxPrefix)
	}
	data, size, err := f.repo.client.get(f.repo.ctx, f.address(), &span{have, have + n - 1}, n)
	if err != nil {
		return err
	}
	if size < 0 {
		return problem.New(problem.Unsupported, "", nil, "the server does not say how large it is")
	}
	if have > 0 && (size != f.size || len(data) == 0) {
		return problem.New(problem.Unreadable, "", nil, "changed while it was read")
	}
	f.size = size
	f.prefix = append(f.prefix, data...)
	return nil
}

// ReadAt reads what the prefix holds, and more of it where it must.
func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	want := min(offset+int64(len(p)), f.size)
	for int64(len(f.prefix)) < want {
		ask := max(want-int64(len(f.prefix)), min(int64(len(f.prefix)), maxSpan))
		if strings.HasSuffix(f.name, ".json") {
			ask = f.size - int64(len(f.prefix)) // will be read to its end
		}
		if err := f.more(min(ask, f.size-int64(len(f.prefix)))); err != nil {
			return 0, err
		}
	}
	if offset >= f.size {
		return 0, io.EOF
	}
	n := copy(p, f.prefix[offset:want])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *file) Stat() (fs.FileInfo, error) { return info{path.Base(f.name), f.size, 0}, nil }
func (f *file) Close() error               { return nil }

// A listing is the folder.
type listing struct {
	repo *repository
	done bool
}

func (l *listing) Stat() (fs.FileInfo, error) { return info{".", 0, fs.ModeDir}, nil }
func (l *listing) Close() error               { return nil }
func (l *listing) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: ".", Err: errors.New("is a folder")}
}

// ReadDir lists the files that are not in folders, all at once.
func (l *listing) ReadDir(n int) ([]fs.DirEntry, error) {
	if l.done && n > 0 {
		return nil, io.EOF
	}
	l.done = true
	var names []string
	for name := range l.repo.files {
		if !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	entries := make([]fs.DirEntry, len(names))
	for i, name := range names {
		entries[i] = fs.FileInfoToDirEntry(info{name, 0, 0})
	}
	return entries, nil
}

// An info is what is known of a file.
type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
