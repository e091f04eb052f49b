package vllm

import (
	"strconv"
	"strings"

	"headcount/engine"
	"headcount/problem"
)

// Version is the release whose rules are applied unless another is asked for: the one
// that made the golden rows.
const Version = "0.33.0"

// A release is a rule set: what differs between versions of the engine, from the version
// named on. Everything else in this package is 0.33.0's.
type release struct {
	since    version
	fraction float64 // default of --gpu-memory-utilization
}

// A version is a release's major and minor number: 0.33 is {0, 33}.
type version struct{ major, minor int }

func (v version) before(o version) bool {
	return v.major < o.major || v.major == o.major && v.minor < o.minor
}

// releases are in order; the last one that does not come after a version holds for it.
var releases = []release{
	{since: version{0, 8}, fraction: 0.9},
	{since: version{0, 33}, fraction: 0.92},
}

// block is the default block size before any backend is asked, tokens.
func (r *release) block(d device) int64 {
	if d.cpu {
		return 128
	}
	return 16
}

// batch is the default size of a scheduler step on a device.
func (r *release) batch(d device, ranks int) batch { return d.batch(ranks) }

// New returns the engine of a version, "0.33.0" or "0.33", "" for the default.
func New(asked string) (engine.Engine, error) {
	if asked == "" || asked == Version {
		return Engine{}, nil
	}
	parts := strings.Split(strings.TrimPrefix(asked, "v"), ".")
	if len(parts) < 2 {
		return nil, badVersion(asked)
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	v := version{major, minor}
	if err1 != nil || err2 != nil || v.before(releases[0].since) || releases[len(releases)-1].since.before(v) {
		return nil, badVersion(asked)
	}
	return Engine{version: strings.TrimPrefix(asked, "v"), rules: ruleset(v)}, nil
}

func badVersion(asked string) error {
	return problem.New(problem.BadValue, "engine", "vllm@"+asked, "not a version whose rules are known").WithHint("0.8 to %s", Version)
}

// ruleset is the release that holds for v.
func ruleset(v version) *release {
	for i := len(releases) - 1; i > 0; i-- {
		if !v.before(releases[i].since) {
			return &releases[i]
		}
	}
	return &releases[0]
}
