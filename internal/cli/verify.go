package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headcount"
	"headcount/internal/live"
	"headcount/problem"
	"headcount/verify"
)

// A verification is the flags of verify.
type verification struct {
	question
	model     string
	asJSON    bool
	follow    bool
	watch     time.Duration
	tolerance float64
	tokenFile string
}

// tokenVariable holds a bearer token for servers that want one.
const tokenVariable = "HEADCOUNT_TOKEN"

func newVerify(a *app) *cobra.Command {
	var v verification
	v.mixed = true // the log says which engine's flags count
	cmd := &cobra.Command{
		Use:   "verify LOG|URL...",
		Short: "Set a plan beside what an engine printed, and say what explains a difference",
		Long: `verify reads start-up logs of vLLM, SGLang, llama.cpp (and so Ollama) and TensorRT-LLM, or
asks a running server, plans what it finds, and compares: weights, pool, blocks, tokens,
requests, or the refusal. Of a difference it names the term that closes it, and it says
which flags would give more.

LOG is a file or - for standard input; a file may hold several starts, interleaved ranks,
colours and a log collector's JSON. URL is the address that clients use. What a log does
not say is asked for by flag, never guessed in silence: --model, --tp, --gpu.

The exit status is 0 when the engine started and every check agrees, 1 when one differs or
the engine refused to start, even as predicted, 2 when nothing can be read.`,
		Example: `  headcount verify vllm.log
  headcount verify vllm.log --model ./my-model/config.json --gpu h100
  kubectl logs my-pod | headcount verify - --model llama-3-70b
  headcount verify --follow /var/log/vllm.log
  headcount verify http://localhost:8000 --tp 8 --gpu h200
  headcount verify http://localhost:8000 --watch`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return problem.New(problem.BadValue, "LOG", nil, "no log and no address given").WithHint("headcount verify vllm.log, or headcount verify http://localhost:8000")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := v.given(cmd)
			if err != nil {
				return err
			}
			return a.verifyAll(cmd.Context(), &v, args, given)
		},
	}
	cmd.Flags().StringVar(&v.model, "model", "", "the `model`, where the log does not name it or names one that is not at hand: a folder, config.json or catalogue name")
	v.addFlags(cmd)
	f := cmd.Flags().Lookup("engine")
	f.DefValue, f.Usage = "", "rules of this `engine` and release, in place of the one that the log names: vllm@0.24.0"
	v.engine = ""
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print each comparison as JSON, one a line")
	cmd.Flags().BoolVar(&v.follow, "follow", false, "go on reading a file that grows, and compare each start in it, until interrupted")
	cmd.Flags().DurationVar(&v.watch, "watch", 0, "of a server: print a line of what it is doing every `time`, until interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
	cmd.Flags().Float64Var(&v.tolerance, "tolerance", verify.DefaultTolerance, "how far an estimate may be off, as a `fraction`")
	cmd.Flags().StringVar(&v.tokenFile, "token-file", "", "`file` with a bearer token for the server; "+tokenVariable+" in the environment does as well")
	return cmd
}

// given is what the flags say.
func (v *verification) given(cmd *cobra.Command) (headcount.Request, error) {
	if !(v.tolerance >= 0 && v.tolerance <= 1) {
		return headcount.Request{}, problem.New(problem.BadValue, "--tolerance", v.tolerance, "not a fraction").WithHint("0.1 allows estimates to be off by 10 %%")
	}
	if v.watch < 0 || cmd.Flags().Changed("watch") && v.watch < 100*time.Millisecond {
		return headcount.Request{}, problem.New(problem.BadValue, "--watch", v.watch, "too short").WithHint("--watch alone prints a line every two seconds")
	}
	requests, err := v.requests(v.model)
	if err != nil {
		return headcount.Request{}, err
	}
	if len(requests) != 1 {
		return headcount.Request{}, problem.New(problem.BadValue, "--tp", nil, "a log is of one layout, not of a list")
	}
	return requests[0], nil
}

// verifyAll compares each log or server in turn.
func (a *app) verifyAll(ctx context.Context, v *verification, names []string, given headcount.Request) error {
	if v.follow && (len(names) != 1 || names[0] == "-" || live.IsAddress(names[0])) {
		return problem.New(problem.BadValue, "--follow", nil, "follows one file; - and addresses go on by themselves")
	}
	if v.watch > 0 && (len(names) != 1 || !live.IsAddress(names[0])) {
		return problem.New(problem.BadValue, "--watch", nil, "watches one server").WithHint("headcount verify http://localhost:8000 --watch")
	}
	if v.follow {
		return a.followLog(ctx, v, names[0], given)
	}
	var findings error
	for i, name := range names {
		if i > 0 && !v.asJSON {
			fmt.Fprintln(a.stdout)
		}
		err := a.verifyOne(ctx, v, name, given)
		if err != nil && !errors.Is(err, errFindings) {
			return err
		}
		findings = errors.Join(findings, err)
	}
	return findings
}

// verifyOne compares one log or server.
func (a *app) verifyOne(ctx context.Context, v *verification, name string, given headcount.Request) error {
	if live.IsAddress(name) {
		return a.verifyServer(ctx, v, name, given)
	}
	in, err := a.openLog(name)
	if err != nil {
		return err
	}
	defer in.Close()
	source := name
	if name == "-" {
		source = "standard input"
	}
	p, err := verify.Read(in, source)
	if err != nil {
		return problem.New(problem.Unreadable, "", nil, "%s: %s", source, cause(err))
	}
	if n := p.Skipped(); n > 0 {
		fmt.Fprintf(a.stderr, "headcount: warning: %s: %d of %d lines skipped: longer than any that an engine writes, or not text\n", source, n, p.Lines())
	}
	starts := p.Told()
	if len(starts) == 0 {
		_, err := a.verifier(v).Verify(ctx, &verify.Observation{Source: source}, given)
		return err
	}
	var findings error
	for i, o := range starts {
		if !v.asJSON && len(starts) > 1 {
			fmt.Fprintf(a.stdout, "%sStart %d of %d\n", strings.Repeat("\n", min(i, 1)), i+1, len(starts))
		}
		_, err := a.compare(ctx, v, o, given)
		if err != nil && !errors.Is(err, errFindings) {
			return err
		}
		findings = errors.Join(findings, err)
	}
	return findings
}

func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func (a *app) verifier(v *verification) *verify.Verifier {
	return &verify.Verifier{Planner: a.planner, Tolerance: v.tolerance}
}

// compare plans one start and prints the comparison.
func (a *app) compare(ctx context.Context, v *verification, o *verify.Observation, given headcount.Request) (*verify.Report, error) {
	r, err := a.verifier(v).Verify(ctx, o, given)
	if err != nil {
		return r, err
	}
	if v.asJSON {
		err = encodeLine(a, r)
	} else {
		showComparison(a.stdout, r)
	}
	if err == nil && !r.Agrees() {
		err = errFindings
	}
	return r, err
}

func (a *app) openLog(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.stdin), nil
	}
	f, err := os.Open(name)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Mode().IsRegular() {
			err = readableText(f, name)
		}
		if err == nil && !info.IsDir() {
			return f, nil
		}
		f.Close()
		if p, ok := errors.AsType[*problem.Error](err); ok {
			return nil, p
		}
		if err == nil {
			return nil, problem.New(problem.Unreadable, "", nil, "%s: a folder, not a log", name).WithHint("headcount plan %s plans a model", name)
		}
	}
	return nil, problem.New(problem.Unreadable, "", nil, "%s: %s", name, cause(err))
}

// encodings are what logs are kept in that is not text as engines write it, by how files
// begin.
var encodings = []struct{ begin, is, remedy string }{
	{"\x1f\x8b", "compressed by gzip", "gzip -dc %s | headcount verify -"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -dc %s | headcount verify -"},
	{"\xff\xfe", "UTF-16", "iconv -f utf-16 -t utf-8 %s | headcount verify -"},
	{"\xfe\xff", "UTF-16", "iconv -f utf-16 -t utf-8 %s | headcount verify -"},
}

// readableText refuses a file that does not begin as text.
func readableText(f io.ReaderAt, name string) error {
	head := make([]byte, 4)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return err
	}
	for _, e := range encodings {
		if strings.HasPrefix(string(head[:n]), e.begin) {
			return problem.New(problem.Unreadable, "", nil, "%s: %s, not plain text", name, e.is).WithHint(e.remedy, name)
		}
	}
	return nil
}

// settle is how long a log is quiet before a start in it is taken as whole.
const settle = 700 * time.Millisecond

// followLog reads a file as it grows and compares each start once it is whole. A file that
// was cut or replaced is read from its beginning.
func (a *app) followLog(ctx context.Context, v *verification, name string, given headcount.Request) error {
	p := &verify.Parser{Source: name}
	var at int64
	shown, facts := 0, 0
	changed := time.Time{}
	status := error(nil)
	for {
		grown, err := readOn(name, &at, p)
		if err != nil {
			return err
		}
		starts := p.Told()
		switch {
		case grown:
			changed = time.Now()
			continue
		case len(starts) > 0 && (len(starts) > shown || len(starts[len(starts)-1].Facts) > facts) && time.Since(changed) > settle:
			for _, o := range starts[min(shown, len(starts)-1):] {
				if _, err := a.compare(ctx, v, o, given); err != nil && !errors.Is(err, errFindings) {
					return err
				} else {
					status = err
				}
			}
			shown, facts = len(starts), len(starts[len(starts)-1].Facts)
		}
		select {
		case <-ctx.Done():
			return status
		case <-time.After(settle / 4):
		}
	}
}

// readOn gives what a file has grown by to a parser.
func readOn(name string, at *int64, p *verify.Parser) (grown bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return false, problem.New(problem.Unreadable, "", nil, "%s: %s", name, cause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, problem.New(problem.Unreadable, "", nil, "%s: %s", name, cause(err))
	}
	if info.Size() < *at {
		*at = 0
	}
	n, err := io.Copy(p, io.NewSectionReader(f, *at, 64<<20))
	*at += n
	if err != nil {
		return false, problem.New(problem.Unreadable, "", nil, "%s: %s", name, cause(err))
	}
	return n > 0, nil
}

// maxToken bounds a bearer token.
const maxToken = 4096

// readToken reads no more of a file than tells that it is longer than a token.
func readToken(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 2*maxToken))
}

// token is the bearer token that is given, if any.
func (v *verification) token() (string, error) {
	if v.tokenFile == "" {
		return strings.TrimSpace(os.Getenv(tokenVariable)), nil
	}
	data, err := readToken(v.tokenFile)
	if err != nil {
		return "", problem.New(problem.Unreadable, "--token-file", v.tokenFile, "%s", cause(err))
	}
	if data = bytes.TrimSpace(data); len(data) > maxToken || bytes.ContainsAny(data, "\r\n") {
		return "", problem.New(problem.Unreadable, "--token-file", v.tokenFile, "not one token")
	}
	return string(data), nil
}

// verifyServer compares what a server answers, and watches it if asked to.
func (a *app) verifyServer(ctx context.Context, v *verification, address string, given headcount.Request) error {
	token, err := v.token()
	if err != nil {
		return err
	}
	server, err := live.New(address, token)
	if err != nil {
		return err
	}
	o, err := server.Observe(ctx)
	if err != nil {
		return err
	}
	r, err := a.compare(ctx, v, o, given)
	if v.watch == 0 || err != nil && !errors.Is(err, errFindings) {
		return err
	}
	return errors.Join(err, a.watch(ctx, v, server, r))
}

// watch prints a line at a time of what a server is doing, until the context ends.
func (a *app) watch(ctx context.Context, v *verification, server *live.Server, r *verify.Report) error {
	tick := time.NewTicker(v.watch)
	defer tick.Stop()
	for {
		o, err := server.Metrics(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			complain(a.stderr, err) // it may come back
		default:
			load := a.verifier(v).Room(ctx, r, o)
			if v.asJSON {
				err = encodeLine(a, load)
			} else {
				_, err = fmt.Fprintf(a.stdout, "%s  %s\n", time.Now().Format(time.TimeOnly), load)
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
