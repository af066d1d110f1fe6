package dispatch

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// metrics are never labelled with the name of an object.
type metrics struct {
	tasks       *prometheus.GaugeVec
	attempts    *prometheus.CounterVec
	refused     *prometheus.CounterVec
	lost        prometheus.Counter
	undelivered prometheus.Counter
	waited      prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) *metrics {
	factory := promauto.With(registry)
	m := &metrics{
		tasks: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "swarm_task_unfinished", Help: "Tasks that are not finished, by state (waiting, running, overLimit)."}, []string{"state"}),
		attempts: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "swarm_task_attempts_total", Help: "Attempts that ended, by outcome."}, []string{"outcome"}),
		refused: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "swarm_task_stale_total", Help: "Messages refused because their epoch is older than the task's, by kind."}, []string{"kind"}),
		lost: factory.NewCounter(prometheus.CounterOpts{
			Name: "swarm_task_lost_total", Help: "Attempts given up because their agent was lost."}),
		undelivered: factory.NewCounter(prometheus.CounterOpts{
			Name: "swarm_task_undelivered_total", Help: "Assignments that could not be sent and were decided again."}),
		waited: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "swarm_task_wait_seconds", Help: "Time that tasks waited for their first assignment.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 10)}),
	}
	for _, kind := range []string{staleRunning, staleProgress, staleResult} {
		m.refused.WithLabelValues(kind) // a counter that is absent until its first event hides that event from rate()
	}
	return m
}

// The kinds of messages that can be stale.
const (
	staleRunning  = "running"
	staleProgress = "progress"
	staleResult   = "result"
)

func (m *metrics) stale(kind string) { m.refused.WithLabelValues(kind).Inc() }

func (m *metrics) ended(outcome linkv1.Outcome) {
	m.attempts.WithLabelValues(strings.ToLower(strings.TrimPrefix(outcome.String(), "OUTCOME_"))).Inc()
}

func (m *metrics) show(b *Board) {
	running := 0
	for _, member := range b.agents {
		running += len(member.holds)
	}
	overLimit := 0
	for _, of := range b.usage {
		overLimit += len(of.line.waiting)
	}
	m.tasks.WithLabelValues("overLimit").Set(float64(overLimit))
	m.tasks.WithLabelValues("running").Set(float64(running))
	m.tasks.WithLabelValues("waiting").Set(float64(len(b.tasks) - running))
}
