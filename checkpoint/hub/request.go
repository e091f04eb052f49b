package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"headcount/problem"
)

// How a request is tried again.
const (
	tries        = 5
	firstWait    = 500 * time.Millisecond // doubled each time
	longestWait  = 30 * time.Second       // also of what a server asks for
	oneTry       = 2 * time.Minute        // for a request and its answer
	maxRedirects = 10
)

// An absentError is the hub's answer about a model that it does not show.
type absentError struct{ said *problem.Error }

func (e absentError) Error() string { return e.said.Error() }
func (e absentError) Unwrap() error { return e.said }

// A span is the bytes [from, to] that are asked for.
type span struct{ from, to int64 }

func (s *span) String() string { return fmt.Sprintf("bytes=%d-%d", s.from, s.to) }

// get fetches an address, or a span of it, of at most so many bytes; size is the whole
// file's. What may pass is tried again, later each time. The error is a [*problem.Error].
func (c *Client) get(ctx context.Context, address string, s *span, most int64) (data []byte, size int64, err error) {
	wait := c.wait
	if wait == 0 {
		wait = firstWait
	}
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval, pace.Multiplier = wait, longestWait, 2
	type answer struct {
		data []byte
		size int64
	}
	got, err := backoff.Retry(ctx, func() (answer, error) {
		data, size, err := c.try(ctx, address, s, most)
		return answer{data, size}, err
	}, backoff.WithBackOff(pace), backoff.WithMaxTries(tries))
	_, gone := errors.AsType[absentError](err)
	said, ours := errors.AsType[*problem.Error](err)
	switch {
	case err == nil:
		return got.data, got.size, nil
	case gone:
		return nil, 0, err
	case ours:
		return nil, 0, said
	}
	return nil, 0, c.unreachable(err)
}

// unreachable is an error of the network, without the address, which may be signed.
func (c *Client) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return problem.New(problem.Unreadable, "", nil, "interrupted")
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return problem.New(problem.Unreadable, "", nil, "%s cannot be reached: %v", c.host(), err).
		WithHint("leave out --allow-network, and name a folder or a config.json that is here")
}

// host is the hub's name in errors.
func (c *Client) host() string {
	u, err := url.Parse(c.endpoint())
	if err != nil || u.Host == "" {
		return "the hub"
	}
	return u.Host
}

// try sends one request and reads its answer.
func (c *Client) try(ctx context.Context, address string, s *span, most int64) ([]byte, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, backoff.Permanent(problem.New(problem.BadValue, "", nil, "the endpoint is no address"))
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	req.Header.Set("User-Agent", "headcount")
	if s != nil {
		req.Header.Set("Range", s.String())
	}
	resp, err := c.client().Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
	case http.StatusRequestedRangeNotSatisfiable:
		return nil, 0, nil // of an empty file nothing can be asked for
	default:
		return nil, 0, c.refused(resp)
	}
	if s != nil {
		most = min(most, s.to-s.from+1)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, 0, err // cut off: worth another try
	}
	size := sizeOf(resp)
	if want := min(most, size-from(s, resp)); size >= 0 && int64(len(data)) < want {
		return nil, 0, io.ErrUnexpectedEOF
	}
	if s != nil && s.from > 0 && resp.StatusCode != http.StatusPartialContent {
		return nil, 0, backoff.Permanent(problem.New(problem.Unsupported, "", nil, "%s does not answer ranged requests", c.host()))
	}
	return data, size, nil
}

// from is the offset of an answer's first byte.
func from(s *span, resp *http.Response) int64 {
	if s == nil || resp.StatusCode != http.StatusPartialContent {
		return 0
	}
	return s.from
}

// sizeOf is the size of the whole file that an answer is of, -1 where it does not say.
func sizeOf(resp *http.Response) int64 {
	if resp.StatusCode == http.StatusPartialContent {
		_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
		n, err := strconv.ParseInt(total, 10, 64)
		if err != nil || n < 0 {
			return -1
		}
		return n
	}
	return resp.ContentLength
}

// refused is what a status means. Too many requests and errors of the server may pass.
func (c *Client) refused(resp *http.Response) error {
	said := problem.New(problem.Unreadable, "", nil, "%s answers %s", c.host(), resp.Status)
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds >= 0 {
			return errors.Join(said, backoff.RetryAfter(min(seconds, int(longestWait/time.Second))))
		}
		return said
	case code >= 500, code == http.StatusRequestTimeout:
		return said
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		said = problem.New(problem.BadValue, "", nil, "%s answers %s: there is no such model, or it is gated or private", c.host(), resp.Status).
			WithHint("set HF_TOKEN to a token that may read it, or log in with hf auth login")
		if c.Token != "" {
			said.Hint = "the token that was sent may not read it: ask for access on the model's page"
		}
		return backoff.Permanent(absentError{said})
	case code == http.StatusNotFound:
		return backoff.Permanent(absentError{problem.New(problem.BadValue, "", nil, "not on %s", c.host())})
	}
	return backoff.Permanent(said)
}

// client is the client of all requests.
func (c *Client) client() *http.Client {
	c.once.Do(func() {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 16
		c.http = &http.Client{Transport: transport, CheckRedirect: follow}
	})
	return c.http
}

// follow follows redirects, and takes the token off what has left the endpoint's own host
// once: signed addresses of storage need none, and nobody else may see it.
func follow(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errors.New("redirected too often")
	}
	home := via[0].URL
	for _, r := range append(via[1:len(via):len(via)], req) {
		if r.URL.Scheme != home.Scheme || r.URL.Host != home.Host {
			req.Header.Del("Authorization")
		}
	}
	return nil
}
