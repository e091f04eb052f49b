package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"headcount"
	"headcount/internal/server"
	"headcount/internal/source"
	"headcount/internal/web"
	"headcount/problem"
)

func newServe(a *app) *cobra.Command {
	var listen, origin string
	var remote, network bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the page and the API",
		Long: `serve answers over HTTP what plan, explain and compare answer here: a page at /, the API
under /v1, its description at /openapi.json, metrics at /metrics.

A model is a name from headcount models or a config that is sent along; with
--allow-network also a hub id. No file of this machine is read. It listens on this machine
alone unless --allow-remote says otherwise.`,
		Example: `  headcount serve
  headcount serve --listen 127.0.0.1:9000
  headcount serve --listen 0.0.0.0:8080 --allow-remote`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := server.CheckOrigin(origin); origin != "" && err != nil {
				return problem.New(problem.BadValue, "--allow-origin", origin, "not an origin").WithHint("a scheme and a host: https://planner.example.com")
			}
			l, local, err := open(cmd, listen, remote)
			if err != nil {
				return err
			}
			planner := &headcount.Planner{}
			if network {
				if planner.Hub, err = servedHub(local); err != nil {
					return err
				}
			}
			debug.SetGCPercent(gcPercent)
			log := slog.New(slog.NewTextHandler(a.stderr, nil))
			h := server.New(server.Options{Planner: planner, Page: web.Handler(), Log: log, Version: version(), Origin: origin, Local: local})
			fmt.Fprintf(a.stderr, "headcount serves http://%s\n", l.Addr())
			if err := server.Serve(cmd.Context(), l, h, log); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	cmd.Flags().BoolVar(&remote, "allow-remote", false, "listen on addresses that other machines reach")
	cmd.Flags().BoolVar(&network, "allow-network", false, "look hub ids that the catalogue does not have up on the hub")
	cmd.Flags().StringVar(&origin, "allow-origin", "", "let pages of this `origin` ask too (CORS); none do by default")
	return cmd
}

// servedHub is the hub that a server asks. The user's token is for the user: other machines
// ask without it.
func servedHub(local bool) (headcount.Resolver, error) {
	client, err := source.HubClient(os.Getenv)
	if err != nil {
		return nil, err
	}
	if !local {
		client.Token = ""
	}
	return client, nil
}

// open listens; local tells that only this machine can reach it.
func open(cmd *cobra.Command, address string, remote bool) (l net.Listener, local bool, err error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, false, problem.New(problem.BadValue, "--listen", address, "not an address").WithHint("a host and a port: 127.0.0.1:8080")
	}
	if local = addr.IP.IsLoopback(); !local && !remote {
		return nil, false, problem.New(problem.BadValue, "--listen", address, "other machines reach this address").
			WithHint("127.0.0.1 for this machine alone, or add --allow-remote")
	}
	var config net.ListenConfig
	l, err = config.Listen(cmd.Context(), "tcp", addr.String())
	if err != nil {
		return nil, false, problem.New(problem.BadValue, "--listen", address, "%s", errors.Unwrap(err))
	}
	return l, local, nil
}
