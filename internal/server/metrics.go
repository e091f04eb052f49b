package server

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"headcount"
)

// metrics are the server's own, on a registry of their own.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	answers, refusals, unusable prometheus.Counter
}

func newMetrics() *metrics {
	plans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headcount_plans_total", Help: "Plans by outcome: answered, refused by the engine's own rule, unusable input.",
	}, []string{"outcome"})
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headcount_http_requests_total", Help: "Answers by route and status.",
		}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "headcount_http_request_duration_seconds", Help: "Time from a request's header to its answer's end, by route.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5},
		}, []string{"route"}),
		answers: plans.WithLabelValues("answered"), refusals: plans.WithLabelValues("refused"), unusable: plans.WithLabelValues("unusable"),
	}
	m.registry.MustRegister(m.requests, m.seconds, plans, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// handler shows the metrics.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// answered counts one answer; routes are the mux's patterns, so that labels are few.
func (m *metrics) answered(route string, status int, took time.Duration) {
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
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
