package headcount

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"

	"headcount/catalog"
	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/engine"
	"headcount/engine/sglang"
	"headcount/engine/vllm"
	"headcount/internal/recent"
	"headcount/model"
	"headcount/problem"
	"headcount/weights"
)

// A Resolver turns a name that is not in the catalogue into a checkpoint: a folder, a
// file, a hub id. found is false for a name that is not its own. Whoever builds the
// Planner decides what its Resolver may touch.
type Resolver interface {
	Source(ctx context.Context, name string) (src *checkpoint.Source, found bool, err error)
}

// A Planner answers Requests. The zero Planner knows the catalogue and inline configs and
// touches neither disk nor network. A Planner may be used by many goroutines.
type Planner struct {
	Resolver Resolver
	Hub      Resolver // asked last: hub ids that the catalogue does not have

	known  sync.Map // catalogue name → *subject; bounded by the catalogue
	recent recent.List[objects, *subject]

	pinned   *subject // see Pin
	pinnedAt Request
}

// Pin returns a Planner that knows the model of req: further requests about it, with other
// flags and layouts, do not read and resolve it again.
func (p *Planner) Pin(ctx context.Context, req Request) (*Planner, error) {
	eng, err := lookupEngine(req.Engine)
	if err != nil {
		return nil, err
	}
	s, err := p.subject(ctx, &req, eng)
	if err != nil {
		return nil, err
	}
	return &Planner{Resolver: p.Resolver, Hub: p.Hub, pinned: s, pinnedAt: req}, nil
}

// sameModel reports whether two requests are about the same model.
func sameModel(a, b *Request) bool {
	return a.Model == b.Model && a.AssumeArchitecture == b.AssumeArchitecture && bytes.Equal(a.Config, b.Config) && bytes.Equal(a.Params, b.Params) &&
		bytes.Equal(a.HFOverrides, b.HFOverrides) && bytes.Equal(a.HFQuantConfig, b.HFQuantConfig)
}

// Plan answers a Request about a catalogue model or an inline config.
//
// An engine's refusal is an answer: the Report's Error says so and err is nil. Unusable
// input is a [*problem.Error], which the Report holds as well; the Report is never nil.
func Plan(ctx context.Context, req Request) (*Report, error) { return standard.Plan(ctx, req) }

var standard Planner

// Plan is the package's Plan, with models from the Planner's Resolver too.
func (p *Planner) Plan(ctx context.Context, req Request) (*Report, error) {
	r := &Report{SchemaVersion: SchemaVersion, ID: req.ID, Layout: req.Layout.Normal()}
	err := p.plan(ctx, &req, r)
	r.fill()
	if err == nil {
		return r, nil
	}
	refusal, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return r, err
	}
	r.Error = refusal
	if refusal.RefusedBy != "" {
		return r, nil
	}
	return r, refusal
}

// plan runs the stages in order: engine, model, device, pool, tokens.
func (p *Planner) plan(ctx context.Context, req *Request, r *Report) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	eng, err := lookupEngine(req.Engine)
	if err != nil {
		return err
	}
	r.Engine = EngineID{eng.Name(), eng.Version()}
	if err := req.check(); err != nil {
		return err
	}
	about, err := p.subject(ctx, req, eng)
	if err != nil {
		return err
	}
	m := about.model
	r.describe(about)
	gpu, err := req.Device()
	if err != nil {
		return err
	}
	if gpu != nil {
		if err := req.checkDevice(gpu); err != nil {
			return err
		}
	}
	job := engine.Job{Model: m, Layout: r.Layout, GPU: gpu, Options: &req.Options}
	if gpu != nil && !gpu.EngineRules() {
		job.GPU = nil
	}
	if job.Options.Draft, err = p.draft(ctx, req); err != nil {
		return err
	}
	res, err := eng.Plan(job)
	r.take(res)
	if err != nil || gpu == nil {
		return err
	}
	r.Roofline = underRoof(gpu, m, r.Layout.Normal(), r.KVCache.DType)
	if job.GPU == nil {
		r.withoutRules(gpu, eng.Name())
		return nil
	}
	if total, _ := gpu.TotalBytes(); total == 0 {
		return nil // the CPU build: its pool is given, not what a device has left
	}
	r.weigh(gpu, m, res, req)
	if err := r.checkFree(gpu); err != nil && !req.pooled() {
		return err
	}
	switch {
	case r.Memory.KVBytes == nil:
		return nil
	case req.pooled():
		r.doubtPool()
		return nil
	case r.cachesNothing():
		r.note("nothing-cached", "info", "no layer keeps anything between steps: the engine makes no pool, and what the device has left stays free")
		return nil
	}
	return r.estimatePool(eng, job)
}

// Model resolves the model that a request asks about, as plans of it do.
func (p *Planner) Model(ctx context.Context, req Request) (*model.Model, error) {
	eng, err := lookupEngine(req.Engine)
	if err != nil {
		return nil, err
	}
	s, err := p.subject(ctx, &req, eng)
	if err != nil {
		return nil, err
	}
	return s.model, nil
}

// lookupEngine takes "vllm", "sglang", each with "@version", and "" for vLLM.
func lookupEngine(name string) (engine.Engine, error) {
	base, version, _ := strings.Cut(name, "@")
	switch base {
	case "", "vllm":
		return vllm.New(version)
	case "sglang":
		return sglang.New(version)
	}
	return nil, problem.New(problem.BadValue, "engine", name, "not an engine that headcount knows").WithHint("vllm or sglang")
}

// A subject is what a request asks about, resolved.
type subject struct {
	model      *model.Model
	parameters *int64 // whole model; nil when not known
	bytes      *int64 // of them
	kinds      []LayerRun
	duplicates []string // keys that the config gives more than once
	headers    error    // why the checkpoint's tensor headers were of no use; nil if they were, or were not needed
}

// Objects are what a checkpoint's files held. A Resolver that gives the same ones again has
// found the files as they were.
type objects struct{ config, hfQuant, params *checkpoint.Object }

// subject resolves what the request asks about. Catalogue models are resolved once.
func (p *Planner) subject(ctx context.Context, req *Request, eng engine.Engine) (*subject, error) {
	if p.pinned != nil && sameModel(req, &p.pinnedAt) {
		return p.pinned, nil
	}
	asIs := len(req.HFOverrides) == 0 && len(req.HFQuantConfig) == 0 && len(req.Params) == 0 && len(req.Config) == 0 && req.AssumeArchitecture == ""
	if asIs {
		if known, ok := p.known.Load(req.Model); ok {
			return known.(*subject), nil
		}
	}
	src, listed, err := p.source(ctx, req)
	if err != nil {
		return nil, err
	}
	from, kept := objects{src.Config, src.HFQuant, src.Params}, asIs && !src.Local()
	if kept {
		if s, ok := p.recent.Get(from); ok {
			return s, nil
		}
	}
	m, err := model.ResolveAs(src, req.AssumeArchitecture)
	if err != nil {
		return nil, unserved(eng, src, req, err)
	}
	s := &subject{model: m, kinds: layerKinds(m), duplicates: src.Duplicates}
	wanted := weights.WantsHeaders(m)
	if wanted || src.Local() { // files that are at hand are looked at, if only to say that they are no good
		s.headers = src.ReadTensors()
	}
	if wanted {
		m.Tensors = src.Tensors
	}
	switch n, bytes, ok := weights.Whole(m, declaredDType(m)); {
	case ok:
		s.parameters, s.bytes = &n, &bytes
	case src.TotalBytes > 0: // an index of files without headers says so much
		s.bytes = &src.TotalBytes
	}
	switch {
	case asIs && listed:
		p.known.Store(req.Model, s)
	case kept:
		p.recent.Put(from, s)
	}
	return s, nil
}

// unserved is the engine's own refusal of a model that no family here resolves either, where
// it comes before it reads what they read, and otherwise err.
func unserved(eng engine.Engine, src *checkpoint.Source, req *Request, err error) error {
	if e, ok := eng.(interface {
		Unserved(*model.Config, *engine.Options) *problem.Error
	}); ok && req.AssumeArchitecture == "" {
		if refusal := e.Unserved(model.NewConfig(src), &req.Options); refusal != nil {
			return refusal
		}
	}
	return err
}

// declaredDType is the dtype that the checkpoint is stored in, bfloat16 where it says
// nothing of use.
func declaredDType(m *model.Model) dtype.Type {
	for _, level := range []*model.Config{m.Config, m.Config.Top()} {
		for _, key := range []string{"dtype", "torch_dtype"} {
			if name, ok := level.Text(key); ok {
				if t, ok := dtype.Parse(name); ok {
					return t
				}
			}
		}
	}
	return dtype.BFloat16
}

// source finds the checkpoint; listed tells that it is the catalogue's own.
func (p *Planner) source(ctx context.Context, req *Request) (src *checkpoint.Source, listed bool, err error) {
	switch {
	case len(req.Config) > 0 || len(req.Params) > 0:
		src, err = inline(req)
	case req.Model == "":
		err = problem.New(problem.MissingField, "model", nil, "no model and no config given").
			WithHint("a catalogue name, as headcount models lists them, or the config itself")
	default:
		src, listed, err = p.named(ctx, req.Model)
	}
	if err == nil {
		src, err = req.override(src)
	}
	return src, listed, err
}

// named asks the Resolver first, so that a folder of a catalogue name is the folder, then
// the catalogue, then the hub.
func (p *Planner) named(ctx context.Context, name string) (*checkpoint.Source, bool, error) {
	if p.Resolver != nil {
		if src, found, err := p.Resolver.Source(ctx, name); found || err != nil {
			return src, false, err
		}
	}
	if src, ok := catalog.Lookup(name); ok {
		return src, true, nil
	}
	if p.Hub != nil {
		if src, found, err := p.Hub.Source(ctx, name); found || err != nil {
			return src, false, err
		}
	}
	err := problem.New(problem.BadValue, "model", name, "not in the catalogue")
	remedy := "headcount models lists what is known; or send the config itself"
	if p.Resolver != nil {
		err = problem.New(problem.BadValue, "model", name, "not a file, not a folder, not in the catalogue")
		remedy = "headcount models lists what is known; or give a folder or a config.json"
	}
	if near := catalog.Nearest(name, 3); len(near) > 0 {
		return nil, false, err.WithHint("did you mean %s?", strings.Join(near, ", "))
	}
	return nil, false, err.WithHint("%s", remedy)
}

// draft resolves the draft model of speculative decoding, nil for none.
func (p *Planner) draft(ctx context.Context, req *Request) (*model.Model, error) {
	name := req.SpeculativeDraftModel
	if req.Speculative != nil && req.Speculative.Model != "" {
		name = req.Speculative.Model
	}
	var src *checkpoint.Source
	var err error
	switch {
	case len(req.DraftConfig) > 0:
		src, err = checkpoint.FromBytes("draft_config", checkpoint.Files{Config: req.DraftConfig})
	case name != "":
		src, _, err = p.named(ctx, name)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return model.Resolve(src)
}

// inline reads the config and side files that the request carries.
func inline(req *Request) (*checkpoint.Source, error) {
	return checkpoint.FromBytes("inline config", checkpoint.Files{
		Config: req.Config, HFQuant: req.HFQuantConfig, Params: req.Params,
	})
}
