// Package hub reads checkpoints where they are published: configs and tensor headers of the
// hub of Hugging Face, or of another server with its API, by ranged requests. It never
// downloads weights, and writes nothing to disk.
package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"headcount/checkpoint"
	"headcount/checkpoint/gguf"
	"headcount/problem"
)

// DefaultEndpoint is the public hub.
const DefaultEndpoint = "https://huggingface.co"

// A Client reads from one hub. The zero Client asks the public one, without a token. A
// Client may be used by many goroutines, and must not be copied.
type Client struct {
	Endpoint string // "": DefaultEndpoint
	Token    string // sent to the endpoint's own host alone; never part of an error
	// Progress, if set, is told how many of a checkpoint's files with headers have been read.
	Progress func(name string, done, files int)

	wait  time.Duration // before the second try; 0: firstWait
	once  sync.Once
	http  *http.Client
	mu    sync.Mutex
	known map[string]reading
}

// A reading is a checkpoint that was read, and the context that its files are read under.
type reading struct {
	ctx context.Context
	src *checkpoint.Source
}

// maxKnown bounds the checkpoints that a Client keeps.
const maxKnown = 64

// IsID tells whether the hub would take name as a model's id, "org/name" or "name"
// (huggingface_hub/utils/_validators.py, validate_repo_id).
func IsID(name string) bool {
	other := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) == 0 || len(part) > 96 || strings.ContainsFunc(part, other) || strings.ContainsAny(part[:1]+part[len(part)-1:], "-.") {
			return false
		}
	}
	return strings.Count(name, "/") <= 1 && !strings.Contains(name, "--") && !strings.Contains(name, "..")
}

// Source reads the config of a model by its id, "org/name", or of one of its GGUF files,
// "org/name:Q4_K_M". Headers are read when they are asked for. A plain word that the hub
// does not know is not found; anything else that is wrong is a [*problem.Error] that begins
// with the id.
func (c *Client) Source(ctx context.Context, name string) (src *checkpoint.Source, found bool, err error) {
	id, variant, _ := strings.Cut(name, ":")
	if !IsID(id) {
		return nil, false, nil
	}
	c.mu.Lock()
	known, ok := c.known[name]
	c.mu.Unlock()
	if ok && known.ctx.Err() == nil {
		return known.src, true, nil
	}
	src, err = c.read(ctx, id, variant)
	if src == nil {
		return nil, err != nil, err
	}
	src.Name = name
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = map[string]reading{}
	}
	c.known[name] = reading{ctx, src}
	return src, true, nil
}

// read is nil without an error for a word that the hub does not know.
func (c *Client) read(ctx context.Context, id, variant string) (*checkpoint.Source, error) {
	repo, err := c.open(ctx, id)
	if _, gone := errors.AsType[absentError](err); gone && !strings.Contains(id, "/") {
		return nil, nil
	}
	if err != nil {
		return nil, problem.Within(id, err)
	}
	if variant == "" && (repo.files[checkpoint.ConfigFile] || repo.files[checkpoint.ParamsFile]) {
		return checkpoint.FromFS(repo, id)
	}
	file, err := gguf.Pick(repo, variant)
	if err == nil && file == "" {
		return checkpoint.FromFS(repo, id) // which says what is there instead of a config
	}
	var src *checkpoint.Source
	if err == nil {
		src, err = gguf.Checkpoint(repo, file)
	}
	return src, problem.Within(id, err)
}

// open asks the hub what a model's main revision is and holds.
func (c *Client) open(ctx context.Context, id string) (*repository, error) {
	data, _, err := c.get(ctx, c.endpoint()+"/api/models/"+id+"/revision/main", nil, maxListing)
	if err != nil {
		return nil, err
	}
	var listing struct {
		SHA      string
		Siblings []struct {
			Name string `json:"rfilename"`
		}
	}
	if err := json.Unmarshal(data, &listing); err != nil || !isCommit(listing.SHA) {
		return nil, problem.New(problem.Unreadable, "", nil, "%s does not answer as a hub does", c.host()).
			WithHint("is HF_ENDPOINT right?")
	}
	repo := &repository{client: c, ctx: ctx, id: id, commit: listing.SHA, files: map[string]bool{}, opened: map[string]*file{}}
	for _, s := range listing.Siblings {
		if fs.ValidPath(s.Name) {
			repo.files[s.Name] = true
		}
	}
	return repo, nil
}

// maxListing bounds the answer that lists a model's files, bytes.
const maxListing = 16 << 20

// isCommit tells a commit's hash, which goes into paths.
func isCommit(s string) bool {
	return len(s) >= 7 && len(s) <= 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func (c *Client) endpoint() string {
	return strings.TrimRight(cmp.Or(c.Endpoint, DefaultEndpoint), "/")
}
