package dispatch

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// metrics are never labelled with the name of an object.
type metrics struct {
	tasks         *prometheus.GaugeVec
	attempts      *prometheus.CounterVec
	staleMessages *prometheus.CounterVec
	lost          prometheus.Counter
	undelivered   prometheus.Counter
	waitSeconds   prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) *metrics {
	factory := promauto.With(registry)
	m := &metrics{
		tasks: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "swarm_task_unfinished", Help: "Tasks that are not finished, by state (waiting, running, overLimit)."}, []string{"state"}),
		attempts: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "swarm_task_attempts_total", Help: "Attempts that ended, by outcome."}, []string{"outcome"}),
		staleMessages: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "swarm_task_stale_total", Help: "Messages refused because their epoch is older than the task's, by kind."}, []string{"kind"}),
		lost: factory.NewCounter(prometheus.CounterOpts{
			Name: "swarm_task_lost_total", Help: "Attempts given up because their agent was lost."}),
		undelivered: factory.NewCounter(prometheus.CounterOpts{
			Name: "swarm_task_undelivered_total", Help: "Assignments that could not be sent and were decided again."}),
		waitSeconds: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "swarm_task_wait_seconds", Help: "Time that tasks waited for their first assignment.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 10)}),
	}
	for _, kind := range []string{staleRunning, staleProgress, staleResult} {
		m.staleMessages.WithLabelValues(kind) // a counter that is absent until its first event hides that event from rate()
	}
	return m
}

// The kinds of messages that can be stale.
const (
	staleRunning  = "running"
	staleProgress = "progress"
	staleResult   = "result"
)

func (m *metrics) countStale(kind string) { m.staleMessages.WithLabelValues(kind).Inc() }

func (m *metrics) countEnd(outcome linkv1.Outcome) {
	m.attempts.WithLabelValues(strings.ToLower(strings.TrimPrefix(outcome.String(), "OUTCOME_"))).Inc()
}

func (m *metrics) update(d *Dispatcher) {
	running := 0
	for _, agent := range d.agents {
		running += len(agent.assignedTasks)
	}
	overLimit := 0
	for _, usage := range d.usage {
		overLimit += len(usage.queue.heap)
	}
	m.tasks.WithLabelValues("overLimit").Set(float64(overLimit))
	m.tasks.WithLabelValues("running").Set(float64(running))
	m.tasks.WithLabelValues("waiting").Set(float64(len(d.tasks) - running))
}
