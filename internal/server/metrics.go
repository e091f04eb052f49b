package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	prometheus "github.com/VictoriaMetrics/metrics"

	"headcount"
)

// metrics are the server's own, in a set of their own.
type metrics struct {
	set *prometheus.Set

	answers, refusals, unusable *prometheus.Counter
}

func newMetrics() *metrics {
	set := prometheus.NewSet()
	outcome := func(name string) *prometheus.Counter {
		return set.NewCounter(fmt.Sprintf("headcount_plans_total{outcome=%q}", name))
	}
	return &metrics{set: set, answers: outcome("answered"), refusals: outcome("refused"), unusable: outcome("unusable")}
}

// bounds are the upper ends of the histogram's buckets, seconds.
var bounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5}

// handler shows the metrics, and the process's own.
func (m *metrics) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		m.set.WritePrometheus(w)
		prometheus.WriteProcessMetrics(w)
	})
}

// answered counts one answer; routes are the mux's patterns, so that labels are few.
func (m *metrics) answered(route string, status int, took time.Duration) {
	if route == "" {
		route = "none"
	}
	m.set.GetOrCreateCounter(fmt.Sprintf("headcount_http_requests_total{route=%q,status=\"%d\"}", route, status)).Inc()
	m.set.GetOrCreatePrometheusHistogramExt(fmt.Sprintf("headcount_http_request_duration_seconds{route=%q}", route), bounds).Update(took.Seconds())
}

// A counted planner counts what it answers.
type counted struct {
	*headcount.Planner
	m *metrics
}

func (c counted) Plan(ctx context.Context, req headcount.Request) (*headcount.Report, error) {
	r, err := c.Planner.Plan(ctx, req)
	switch {
	case err != nil:
		c.m.unusable.Inc()
	case r.Error != nil:
		c.m.refusals.Inc()
	default:
		c.m.answers.Inc()
	}
	return r, err
}
