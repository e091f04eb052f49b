package server

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"headcount"
	"headcount/hw"
	"headcount/internal/digest"
	"headcount/internal/jobs"
	"headcount/internal/series"
	"headcount/internal/strict"
)

// An api is what operations share.
type api struct {
	huma.API
	planner counted
}

// register puts the API's operations on a mux.
func register(mux *http.ServeMux, o *Options, m *metrics) *api {
	a := &api{humago.New(mux, config(o.Version)), counted{o.Planner, m}}
	a.API.OpenAPI().Components.Schemas.RegisterTypeAlias(reflect.TypeFor[hw.Accelerator](), reflect.TypeFor[hw.Description]())
	post(a, "plan", "Say what an engine will allocate and log", "One request, one report: what `headcount plan --json` prints. A layout that the engine refuses is an answer: 200, with `error` in the report.", a.planner.Plan)
	post(a, "explain", "Walk from config.json to the log line", "The report, and its steps with the arithmetic of each.", a.explain)
	post(a, "compare", "Put models, engines and layouts side by side", "A report for each request, and where one holds more than another.", a.compare)
	post(a, "figures", "Everything that pictures show", "Reports planned over tensor parallel sizes and lengths, as series to draw.", a.figures)
	a.registerPlans()
	a.registerVerify()
	models := sync.OnceValue(func() Models { return Models{digest.Models(context.Background(), a.planner.Planner, "")} })
	if o.Page != nil {
		go models() // the page asks for it first, and it takes a moment
	}
	get(a, "models", "List the models known by name", func() Models { return models() })
	get(a, "accelerators", "List the accelerators, with the source of each figure", func() Accelerators { return Accelerators{hw.All()} })
	get(a, "options", "List the engines' flags that a request may carry", options)
	for p := range a.OpenAPI().Paths {
		mux.HandleFunc(p, otherMethod)
	}
	mux.HandleFunc("/v1/", nothing)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.Handle("GET /metrics", m.handler())
	return a
}

func nothing(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, newProblem(http.StatusNotFound, "nothing is here; /openapi.json lists what is"))
}

// otherMethod answers for an operation that is asked by a method which is not its own.
func otherMethod(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, newProblem(http.StatusMethodNotAllowed, r.Method+" is not how this is asked; /openapi.json says how"))
}

func config(version string) huma.Config {
	c := huma.DefaultConfig("headcount", version)
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	c.Info.Description = "What vLLM and SGLang will allocate for a model, before anything is loaded."
	c.DocsPath, c.SchemasPath = "", ""
	c.CreateHooks = nil // no $schema in answers: they are the command's, byte for byte
	return c
}

// schemaName tells the series of a picture, and a comparison, from the parts of a report
// that they are about.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch path.Base(t.PkgPath()) {
	case "series":
		return "Series" + name
	case "verify":
		return "Verify" + name
	}
	return name
}

// Models are the catalogue.
type Models struct {
	Models []digest.Model `json:"models"`
}

// Accelerators are the devices known.
type Accelerators struct {
	Accelerators []*hw.Accelerator `json:"accelerators"`
}

// An Explanation is a report and its way.
type Explanation struct {
	Report *headcount.Report `json:"report"`
	Steps  []headcount.Step  `json:"steps"`
}

func (a *api) explain(ctx context.Context, req headcount.Request) (*Explanation, error) {
	r, err := a.planner.Plan(ctx, req)
	if err != nil {
		return nil, err
	}
	return &Explanation{r, r.Explain()}, nil
}

// A Comparison is what to put side by side.
type Comparison struct {
	Requests []headcount.Request `json:"requests" minItems:"1" maxItems:"8"`
	TP       []int               `json:"tp,omitempty" maxItems:"32" doc:"sizes to compare capacity over; powers of two from 1 to 64 unless given"`
}

// Compared is the answer.
type Compared struct {
	Reports  []*headcount.Report `json:"reports"`
	Capacity *series.Capacity    `json:"capacity"`
}

func (a *api) compare(ctx context.Context, c Comparison) (*Compared, error) {
	reports, capacity, err := series.Compare(ctx, a.planner, series.Query{Requests: c.Requests, TP: c.TP})
	if err != nil {
		return nil, err
	}
	return &Compared{reports, capacity}, nil
}

func (a *api) figures(ctx context.Context, q series.Query) (*series.Figures, error) {
	return series.Draw(ctx, a.planner, q)
}

// A written answer writes itself.
type written struct{ Body func(huma.Context) }

// bodyErrors are the statuses of an operation that reads a body.
var bodyErrors = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusInternalServerError}

// post registers POST /v1/NAME, which takes a Q and answers an A. The body is read by
// package strict, which says what is wrong as the command does.
func post[Q, A any](a *api, name, summary, description string, answer func(context.Context, Q) (A, error)) {
	op := operation(http.MethodPost, name, summary)
	op.Description = description
	op.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: a.content(reflect.TypeFor[A]())}}
	op.Errors = bodyErrors
	huma.Register(a, op, func(ctx context.Context, in *stream) (*written, error) {
		body := takeBuffer()
		defer body.giveBack()
		if err := body.read(in.ctx.BodyReader(), headcount.MaxRequestBytes); err != nil {
			return nil, err
		}
		var q Q
		if err := strict.Decode(body.Bytes(), &q, "request", headcount.MaxRequestBytes); err != nil {
			return nil, badBody(body.Bytes(), err)
		}
		ctx, cancel := context.WithTimeout(ctx, planTime)
		defer cancel()
		v, err := answer(ctx, q)
		if err != nil {
			return nil, asProblem(err)
		}
		return &written{func(ctx huma.Context) { writeJSON(ctx, v) }}, nil
	})
	a.describeBody(op.Path, a.content(reflect.TypeFor[Q]()))
}

// describeBody tells the document of a body that the handler reads by itself.
func (a *api) describeBody(at string, content map[string]*huma.MediaType) {
	a.OpenAPI().Paths[at].Post.RequestBody = &huma.RequestBody{Required: true, Content: content}
}

// get registers GET /v1/NAME, which answers an A.
func get[A any](a *api, name, summary string, answer func() A) {
	op := operation(http.MethodGet, name, summary)
	op.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: a.content(reflect.TypeFor[A]())}}
	huma.Register(a, op, func(context.Context, *struct{}) (*written, error) {
		return &written{func(ctx huma.Context) { writeJSON(ctx, answer()) }}, nil
	})
}

func operation(method, name, summary string) huma.Operation {
	return huma.Operation{OperationID: name, Method: method, Path: "/v1/" + name, Summary: summary}
}

// content is the JSON of a type.
func (a *api) content(t reflect.Type) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: a.OpenAPI().Components.Schemas.Schema(t, true, "")}}
}

func writeJSON(ctx huma.Context, v any) {
	b := takeBuffer()
	defer b.giveBack()
	if err := json.NewEncoder(b).Encode(v); err != nil {
		panic("server: " + err.Error()) // our own types encode
	}
	ctx.SetHeader("Content-Type", "application/json")
	ctx.SetHeader("Content-Length", strconv.Itoa(b.Len()))
	ctx.BodyWriter().Write(b.Bytes())
}

// A stream is a request whose body is read while the answer is written.
type stream struct{ ctx huma.Context }

// Resolve keeps the connection.
func (s *stream) Resolve(ctx huma.Context) []error {
	s.ctx = ctx
	return nil
}

const lines = "application/jsonl"

// registerPlans registers POST /v1/plans: requests a line, reports a line.
func (a *api) registerPlans() {
	op := operation(http.MethodPost, "plans", "Answer a stream of requests")
	op.Description = "JSON lines in, JSON lines out, in order, as `headcount plan --jobs`: a line that is of no use is answered by an `error` with its line number, and the rest go on."
	schemas := a.OpenAPI().Components.Schemas
	op.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{lines: {Schema: schemas.Schema(reflect.TypeFor[headcount.Report](), true, "")}}}}
	huma.Register(a, op, func(_ context.Context, in *stream) (*written, error) {
		r, w := humago.Unwrap(in.ctx)
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			return nil, err
		}
		return &written{func(ctx huma.Context) {
			ctx.SetHeader("Content-Type", lines)
			// A failure ends the stream: its status has been sent.
			jobs.Run(r.Context(), a.planner, &moving{r: r.Body, c: control}, &moving{w: w, c: control})
		}}, nil
	})
	a.describeBody(op.Path, map[string]*huma.MediaType{lines: {Schema: schemas.Schema(reflect.TypeFor[headcount.Request](), true, "")}})
}

// moving is one side of a stream, whose time-out begins anew with each piece.
type moving struct {
	r interface{ Read([]byte) (int, error) }
	w interface{ Write([]byte) (int, error) }
	c *http.ResponseController
}

func (m *moving) Read(data []byte) (int, error) {
	m.c.SetReadDeadline(time.Now().Add(bodyTime))
	return m.r.Read(data)
}

func (m *moving) Write(data []byte) (int, error) {
	m.c.SetWriteDeadline(time.Now().Add(answerTime))
	return m.w.Write(data)
}

// Flush sends what was written.
func (m *moving) Flush() error { return m.c.Flush() }
