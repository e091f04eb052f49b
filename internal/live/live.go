// Package live asks a running server what it is doing: the pages that verify reads. Only
// the address that is given is contacted.
package live

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"headcount/problem"
	"headcount/verify"
)

// Timeout is how long one page may take.
const Timeout = 10 * time.Second

// maxPage bounds a page, in bytes: metrics of many replicas are some megabytes.
const maxPage = 16 << 20

// A Server is one address. It is asked with [Timeout], and no redirect is followed: it could
// lead elsewhere.
type Server struct {
	base  *url.URL
	token string // of the Authorization header; never printed
	http  http.Client
}

// IsAddress reports whether a name is a server's address, not a file's.
func IsAddress(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// New is the server at an address, "http://host:8000". What follows the host is kept as a
// prefix, but for a page that the address itself may name.
func New(address, token string) (*Server, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" {
		return nil, problem.New(problem.BadValue, "address", strip(address), "not an address of a server").WithHint("http://host:8000")
	}
	if base.User != nil {
		return nil, problem.New(problem.BadValue, "address", base.Redacted(), "a password in an address ends up in logs").
			WithHint("--token-file FILE, or HEADCOUNT_TOKEN in the environment")
	}
	for _, page := range pages {
		base.Path = strings.TrimSuffix(base.Path, page)
	}
	base.Path = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/v1"), "/")
	base.RawQuery, base.Fragment = "", ""
	s := &Server{base: base, token: token}
	s.http.Timeout = Timeout
	s.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

// strip is an address without what may be secret in it.
func strip(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return "…" + address[at:]
	}
	return address
}

// pages are asked for in this order; the one that tells the engine comes first.
var pages = []string{"/metrics", "/v1/models", "/version", "/server_info", "/get_server_info", "/props"}

// Name is the address.
func (s *Server) Name() string { return s.base.String() }

// Observe asks for all pages that the server's engine has.
func (s *Server) Observe(ctx context.Context) (*verify.Observation, error) {
	var got []verify.Page
	for _, path := range pages {
		body, err := s.page(ctx, path)
		if err != nil {
			return nil, err
		}
		got = append(got, verify.Page{Path: path, Body: body})
		if path == "/version" && metricsOf(got, "vllm:") || path == "/server_info" && body != nil {
			break // the pages that follow are other engines'
		}
	}
	return verify.FromServer(s.Name(), got)
}

// Metrics asks for /metrics alone: what changes while a server runs.
func (s *Server) Metrics(ctx context.Context) (*verify.Observation, error) {
	body, err := s.page(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return verify.FromServer(s.Name(), []verify.Page{{Path: "/metrics", Body: body}})
}

func metricsOf(got []verify.Page, prefix string) bool {
	return strings.Contains(string(got[0].Body), prefix)
}

// page is the body of one page, nil when the server has none there.
func (s *Server) page(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.JoinPath(path).String(), nil)
	if err != nil {
		return nil, s.unreachable(err)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, s.unreachable(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		if path != "/metrics" && path != "/v1/models" {
			return nil, nil // an administrator's page
		}
		return nil, problem.New(problem.Unreadable, "", nil, "%s%s: %s", s.Name(), path, resp.Status).
			WithHint("--token-file FILE, or HEADCOUNT_TOKEN in the environment")
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, problem.New(problem.Unreadable, "", nil, "%s%s leads elsewhere, and only the address given is contacted", s.Name(), path).
			WithHint("give the address that it leads to")
	case resp.StatusCode != http.StatusOK:
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return nil, s.unreachable(err)
	}
	if len(body) > maxPage {
		return nil, problem.New(problem.Unreadable, "", nil, "%s%s: more than %d MiB", s.Name(), path, maxPage>>20)
	}
	if body == nil {
		body = []byte{}
	}
	return body, nil
}

// unreachable is why there is no answer, without the address that the cause repeats.
func (s *Server) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	why := err.Error()
	if os.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		why = "no answer in " + Timeout.String()
	}
	return problem.New(problem.Unreadable, "", nil, "%s: %s", s.Name(), why)
}
