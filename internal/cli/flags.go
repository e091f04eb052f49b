package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headcount"
	"headcount/engine"
	"headcount/layout"
	"headcount/problem"
	"headcount/units"
)

// aliases are other names of flags: the short ones that people type, and SGLang's where
// the engine-neutral name is vLLM's.
var aliases = map[string]string{
	"tp": "tensor-parallel-size", "tp-size": "tensor-parallel-size",
	"pp": "pipeline-parallel-size", "pp-size": "pipeline-parallel-size",
	"dp": "data-parallel-size", "dp-size": "data-parallel-size",
	"dcp": "decode-context-parallel-size", "dcp-size": "decode-context-parallel-size",
	"ep": "enable-expert-parallel", "context-length": "max-model-len",
	"kv-cache-memory": "kv-cache-memory-bytes", "at": "concurrency-at",
	"free-memory": "free-memory-bytes", "max-seq-len": "max-model-len",
}

// sizes are the flags that take a list, and so make a sweep.
var sizes = []string{"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size"}

// A question is what the flags of plan, explain and compare ask, for any number of layouts.
type question struct {
	engine string
	gpu    string
	assume string
	spec   engine.Speculative

	flags   *pflag.FlagSet
	mixed   bool              // several engines are asked at once, and flags of each may be given
	request headcount.Request // the options; its Layout is set per row
	sweep   map[string]*[]int // by JSON name of the layout's sizes
}

// addFlags declares one flag for each engine option, named and described as the Request's
// JSON is: the two cannot drift apart.
func (q *question) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	q.flags = fs
	fs.SortFlags = false
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if full, ok := aliases[name]; ok {
			name = full
		}
		return pflag.NormalizedName(name)
	})
	fs.StringVar(&q.engine, "engine", "vllm", "serving `engine`: vllm or sglang, with @version for another release")
	fs.StringVar(&q.gpu, "gpu", "", "`accelerator`, as headcount gpus lists them, or a JSON file that describes one")
	q.sweep = map[string]*[]int{}
	q.addLayout(fs)
	q.addOptions(fs)
	fs.StringVar(&q.spec.Method, "speculative-method", "", "speculative `method`: mtp, eagle, ngram, ... (vLLM)")
	fs.IntVar(&q.spec.Tokens, "num-speculative-tokens", 0, "speculative `tokens` per step (vLLM)")
	fs.StringVar(&q.spec.Model, "speculative-model", "", "draft `model` of speculative decoding: a catalogue name, folder or file (vLLM)")
	fs.StringVar(&q.assume, "assume-architecture", "", "go on as if the config named this `architecture`")
}

func (q *question) addLayout(fs *pflag.FlagSet) {
	l := reflect.ValueOf(&q.request.Layout).Elem()
	for i := range l.NumField() {
		name, help := tag(l.Type().Field(i))
		switch p := l.Field(i).Addr().Interface().(type) {
		case *bool:
			fs.BoolVar(p, flagName(name), false, help)
		case *int:
			q.sweep[name] = &[]int{}
			fs.Var(&intList{q.sweep[name]}, flagName(name), help+short(name))
		}
	}
}

func (q *question) addOptions(fs *pflag.FlagSet) {
	o := reflect.ValueOf(&q.request.Options).Elem()
	for i := range o.NumField() {
		name, help := tag(o.Type().Field(i))
		if help == "" {
			continue
		}
		flag := flagName(name)
		switch p := o.Field(i).Addr().Interface().(type) {
		case *string:
			fs.StringVar(p, flag, "", help)
		case *bool:
			fs.BoolVar(p, flag, false, help)
		case **bool:
			fs.Var(&optBool{p}, flag, help)
			fs.Lookup(flag).NoOptDefVal = "true"
		case *int:
			fs.IntVar(p, flag, 0, help)
		case *float64:
			fs.Float64Var(p, flag, 0, help)
		case *int64:
			if strings.HasSuffix(name, "_bytes") {
				fs.Var(&byteSize{p}, flag, help)
			} else {
				fs.Var(&tokens{p}, flag, help)
			}
		case *[]int64:
			fs.Var(&tokenList{p}, flag, help)
		default:
			panic("cli: no flag for option " + name)
		}
	}
}

// tag is a field's JSON name and its help.
func tag(f reflect.StructField) (name, help string) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	return name, f.Tag.Get("help")
}

func flagName(name string) string { return strings.ReplaceAll(name, "_", "-") }

// short names a flag's short form in its help.
func short(name string) string {
	for _, alias := range []string{"tp", "pp", "dp", "dcp"} {
		if aliases[alias] == flagName(name) {
			return " (--" + alias + ")"
		}
	}
	return ""
}

// refuseZeros names a number that was given as 0: in a request 0 means the default, and
// whoever types it means something else.
func refuseZeros(fs *pflag.FlagSet) (err error) {
	fs.Visit(func(f *pflag.Flag) {
		zero := f.Value.String() == "0"
		switch f.Value.(type) {
		case *tokens, *byteSize:
			zero = f.Value.String() == ""
		}
		if zero && err == nil {
			err = problem.New(problem.BadValue, "--"+f.Name, 0, "not a value of this flag").WithHint("leave it out for the engine's default")
		}
	})
	return err
}

// refuseForeign names a flag of the other engine, which this one would not take either.
func (q *question) refuseForeign() (err error) {
	if q.mixed {
		return nil
	}
	own, other := "(vLLM)", "(SGLang)"
	if strings.HasPrefix(q.engine, "sglang") {
		own, other = other, own
	}
	q.flags.Visit(func(f *pflag.Flag) {
		if err == nil && strings.Contains(f.Usage, other) && !strings.Contains(f.Usage, own) {
			err = problem.New(problem.BadValue, "--"+f.Name, nil, "a flag of %s, and the engine asked for is another", strings.Trim(other, "()")).
				WithHint("leave it out, or choose its engine with --engine")
		}
	})
	return err
}

// requests are the questions of a sweep, one a layout, in the order of the lists.
func (q *question) requests(model string) ([]headcount.Request, error) {
	if err := refuseZeros(q.flags); err != nil {
		return nil, err
	}
	if err := q.refuseForeign(); err != nil {
		return nil, err
	}
	req := q.request
	req.Model, req.Engine, req.AssumeArchitecture = model, q.engine, q.assume
	if err := setGPU(&req, q.gpu); err != nil {
		return nil, err
	}
	if q.spec != (engine.Speculative{}) {
		req.Speculative = &q.spec
	}
	out := []headcount.Request{req}
	for i, name := range sizes {
		values := *q.sweep[name]
		if len(values) == 0 {
			continue
		}
		var next []headcount.Request
		for _, base := range out {
			for _, n := range values {
				l := []*int{&base.Layout.TP, &base.Layout.PP, &base.Layout.DP, &base.Layout.DCP}
				*l[i] = n
				next = append(next, base)
			}
		}
		if out = next; len(out) > maxSweep {
			return nil, problem.New(problem.BadValue, "--"+flagName(name), len(out), "layouts in one sweep exceed %d", maxSweep)
		}
	}
	return out, nil
}

const maxSweep = 4096

// laidOut reports whether any size of the layout was given.
func (q *question) laidOut() bool {
	return q.request.Layout.DPAttention || slices.ContainsFunc(sizes, func(name string) bool { return len(*q.sweep[name]) > 0 })
}

// flagError says what is wrong with a flag, and names the nearest to one that does not exist.
func flagError(cmd *cobra.Command, err error) error {
	switch e := err.(type) {
	case *pflag.NotExistError:
		return unknownFlag(cmd, e.GetSpecifiedName())
	case *pflag.ValueRequiredError:
		return problem.New(problem.MissingField, "--"+e.GetFlag().Name, nil, "takes a value, and none is given").WithHint("%s", use(e.GetFlag()))
	case *pflag.InvalidValueError:
		return problem.New(problem.BadValue, "--"+e.GetFlag().Name, nil, "%s", wrongValue(e)).WithHint("%s", use(e.GetFlag()))
	}
	return problem.New(problem.BadValue, "", nil, "%s", err)
}

func unknownFlag(cmd *cobra.Command, name string) error {
	p := problem.New(problem.BadValue, "--"+name, nil, "not a flag of %s", cmd.CommandPath())
	names := make([]string, 0, 80)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	for alias := range aliases {
		if cmd.Flags().Lookup(alias) != nil {
			names = append(names, alias)
		}
	}
	slices.Sort(names)
	if near := problem.Nearest(name, names, 1); len(near) > 0 {
		p.Hint = "did you mean --" + near[0] + "?"
	}
	return p
}

// wrongValue is what is wrong with a flag's value: in our words for the flags of the
// library, whose own speak of parsing.
func wrongValue(e *pflag.InvalidValueError) string {
	cause, ok := errors.AsType[*strconv.NumError](e.Unwrap())
	kind := strings.TrimRight(e.GetFlag().Value.Type(), "0123456789")
	want := map[string]string{"int": "a whole number", "uint": "a whole number", "float": "a number", "bool": "true or false"}[kind]
	switch {
	case !ok || want == "":
		return e.Unwrap().Error()
	case errors.Is(cause, strconv.ErrRange):
		return strconv.Quote(e.GetValue()) + " is out of range"
	}
	return strconv.Quote(e.GetValue()) + " is not " + want
}

// use is how a flag is used: what it takes, and what that does.
func use(f *pflag.Flag) string {
	value, what := pflag.UnquoteUsage(f)
	return strings.TrimSpace("--"+f.Name+" "+value) + ": " + what
}

// intList is a flag of comma-separated whole numbers.
type intList struct{ p *[]int }

func (v *intList) String() string {
	if v.p == nil {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*v.p), " ", ","), "[]")
}
func (v *intList) Type() string { return "sizes" }
func (v *intList) Set(s string) error {
	*v.p = nil
	for _, part := range strings.Split(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > layout.MaxRanks {
			return fmt.Errorf("%q is not a size between 1 and %d", part, layout.MaxRanks)
		}
		*v.p = append(*v.p, n)
	}
	return nil
}

// tokens is a flag that takes a length: 8192, 8k, auto.
type tokens struct{ p *int64 }

func (v *tokens) String() string {
	if v.p == nil || *v.p == 0 {
		return ""
	}
	return strconv.FormatInt(*v.p, 10)
}
func (v *tokens) Type() string { return "tokens" }
func (v *tokens) Set(s string) (err error) {
	*v.p, err = units.ParseTokens(s)
	return err
}

// tokenList is a flag of comma-separated lengths.
type tokenList struct{ p *[]int64 }

func (v *tokenList) String() string {
	if v.p == nil || len(*v.p) == 0 {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(*v.p), "[]"), " ", ",")
}
func (v *tokenList) Type() string { return "tokens" }
func (v *tokenList) Set(s string) error {
	*v.p = nil
	for _, part := range strings.Split(s, ",") {
		n, err := units.ParseTokens(part)
		if err != nil {
			return err
		}
		if n < 1 {
			return fmt.Errorf("%q is not a length", part)
		}
		*v.p = append(*v.p, n)
	}
	return nil
}

// byteSize is a flag that takes bytes: 40GiB, 42949672960.
type byteSize struct{ p *int64 }

func (v *byteSize) String() string {
	if v.p == nil || *v.p == 0 {
		return ""
	}
	return strconv.FormatInt(*v.p, 10)
}
func (v *byteSize) Type() string { return "bytes" }
func (v *byteSize) Set(s string) error {
	n, err := units.ParseBytes(s)
	*v.p = int64(n)
	return err
}

// optBool is a flag whose absence differs from false.
type optBool struct{ p **bool }

func (v *optBool) String() string {
	if v.p == nil || *v.p == nil {
		return ""
	}
	return strconv.FormatBool(**v.p)
}
func (v *optBool) Type() string { return "bool" }
func (v *optBool) Set(s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("%q is not true or false", s)
	}
	*v.p = &b
	return nil
}

// encode writes v as indented JSON.
func encode(a *app, v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
