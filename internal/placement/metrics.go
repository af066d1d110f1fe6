package placement

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// outcome is what became of a request.
type outcome string

const (
	placed outcome = "placed"
	passed outcome = "passed" // as it is, because it is no business of ours
	failed outcome = "failed" // as it is, because of a failure of ours
)

// metrics are never labelled by the name of an object.
type metrics struct {
	durations *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{durations: promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "swarm_webhook_request_duration_seconds", Help: "Time to answer the API server, by webhook and outcome (placed, passed, failed).",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .3, .5, 1, 2},
	}, []string{"webhook", "outcome"})}
	for _, each := range []outcome{placed, passed, failed} {
		m.durations.WithLabelValues(hook, string(each)) // so that none is missing before it first happens
	}
	return m
}

func (m *metrics) answered(became outcome, took time.Duration) {
	m.durations.WithLabelValues(hook, string(became)).Observe(took.Seconds())
}
