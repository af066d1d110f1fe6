package spread

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// outcome is the result of a request.
type outcome string

const (
	outcomePlaced outcome = "placed"
	outcomePassed outcome = "passed" // unchanged, because it is not managed
	outcomeFailed outcome = "failed" // unchanged, because of a failure of ours
)

// metrics never have object names as labels.
type metrics struct {
	durations *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{durations: promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "swarm_webhook_request_duration_seconds", Help: "Time to answer the API server, by webhook and outcome (placed, passed, failed).",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .3, .5, 1, 2},
	}, []string{"webhook", "outcome"})}
	for _, each := range []outcome{outcomePlaced, outcomePassed, outcomeFailed} {
		m.durations.WithLabelValues(webhookName, string(each)) // so that every series exists from the start
	}
	return m
}

func (m *metrics) observe(became outcome, took time.Duration) {
	m.durations.WithLabelValues(webhookName, string(became)).Observe(took.Seconds())
}
