package cli

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"headcount/checkpoint"
	"headcount/checkpoint/hub"
	"headcount/internal/source"
)

// allowNetwork adds the flag without which no command touches the network.
func (a *app) allowNetwork(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.network, "allow-network", false, "read configs and tensor headers of models that are not here from the hub (HF_ENDPOINT, HF_TOKEN)")
}

// hubs are the hub's cache on this machine and, where that is allowed, the hub itself.
type hubs struct {
	app    *app
	cache  source.HubCache
	client func() (*hub.Client, error) // made when it is first needed
}

func newHubs(a *app) *hubs {
	return &hubs{
		app:   a,
		cache: source.HubCache{Dir: source.HubCacheDir(os.Getenv)},
		client: sync.OnceValues(func() (*hub.Client, error) {
			c, err := source.HubClient(os.Getenv)
			if err == nil {
				c.Progress = a.progress
			}
			return c, err
		}),
	}
}

// Source looks for a hub id in the cache, then on the hub.
func (h *hubs) Source(ctx context.Context, name string) (*checkpoint.Source, bool, error) {
	src, found, err := h.cache.Source(ctx, name)
	if found || err != nil || !h.app.network {
		return src, found, err
	}
	client, err := h.client()
	if err != nil {
		return nil, false, err
	}
	return client.Source(ctx, name)
}

// progress shows how many headers have been read, on a terminal alone.
func (a *app) progress(name string, done, files int) {
	f, ok := a.stderr.(*os.File)
	if !ok || files < 2 {
		return
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	fmt.Fprintf(f, "\rheadcount: %s: headers of %d of %d files", name, done, files)
	if done == files {
		fmt.Fprint(f, "\r\x1b[K")
	}
}
