package server

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"headcount"
	"headcount/internal/strict"
	"headcount/verify"
)

// maxLog bounds a log that is sent to be compared, and logsAtOnce how many are held or read
// at a time; the others wait.
const (
	maxLog     = 64 << 20
	logsAtOnce = 2
)

// A Log is what an engine printed, and what is known beside.
type Log struct {
	Log     string            `json:"log" doc:"the start-up log, whole"`
	Request headcount.Request `json:"request,omitempty" doc:"what the log does not say, or says wrongly: model or config, gpu, layout, flags"`
}

// Comparisons are one for each start in a log.
type Comparisons struct {
	Starts  []*verify.Report `json:"starts"`
	Lines   int64            `json:"lines"`
	Skipped int64            `json:"skipped_lines" doc:"longer than any that an engine writes, or not text"`
}

// registerVerify registers POST /v1/verify: a log as text, or with a request as JSON.
func (a *api) registerVerify() {
	op := operation(http.MethodPost, "verify", "Set a plan beside what an engine printed")
	op.Description = "The log of vLLM, SGLang, llama.cpp or TensorRT-LLM as `text/plain`, or in a JSON object with what it does not say. An answer for each start in it: what agrees, what differs, and the term that explains it."
	op.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: a.content(reflect.TypeFor[Comparisons]())}}
	op.Errors = bodyErrors
	turns := make(chan struct{}, logsAtOnce)
	huma.Register(a, op, func(ctx context.Context, in *stream) (*written, error) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return nil, asProblem(ctx.Err())
		}
		v, err := a.compareBody(ctx, in.ctx.Header("Content-Type"), in.ctx.BodyReader())
		if err != nil {
			return nil, err
		}
		return &written{func(ctx huma.Context) { writeJSON(ctx, v) }}, nil
	})
	content := a.content(reflect.TypeFor[Log]())
	content["text/plain"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	a.describeBody(op.Path, content)
}

// compareBody compares what a body holds: a log that is read as it arrives, or a JSON object.
func (a *api) compareBody(ctx context.Context, contentType string, body io.Reader) (*Comparisons, error) {
	text := &arriving{body: body, limit: maxLog}
	log, given := io.Reader(text), headcount.Request{}
	if strings.HasPrefix(contentType, "application/json") {
		held := takeBuffer()
		defer held.giveBack()
		if err := held.read(body, maxLog); err != nil {
			return nil, err
		}
		var l Log
		if err := strict.Decode(held.Bytes(), &l, "comparison", maxLog); err != nil {
			return nil, badBody(held.Bytes(), err)
		}
		log, given = strings.NewReader(l.Log), l.Request
	}
	ctx, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	v, err := a.compareLog(ctx, log, given)
	if text.problem != nil {
		return nil, text.problem
	}
	if err != nil {
		return nil, asProblem(err)
	}
	return v, nil
}

// compareLog compares each start of a log that came to an end of its own.
func (a *api) compareLog(ctx context.Context, log io.Reader, given headcount.Request) (*Comparisons, error) {
	p, err := verify.Read(log, "log")
	if err != nil {
		return nil, err
	}
	v := verify.Verifier{Planner: a.planner.Planner}
	out := &Comparisons{Lines: p.Lines(), Skipped: p.Skipped()}
	starts := p.Told()
	if len(starts) == 0 {
		starts = append(starts, &verify.Observation{Source: "log"}) // which says what is missing
	}
	for _, o := range starts {
		r, err := v.Verify(ctx, o, given)
		if err != nil {
			return nil, err
		}
		out.Starts = append(out.Starts, r)
	}
	return out, nil
}
