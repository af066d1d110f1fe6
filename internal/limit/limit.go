// Package limit bounds what callers may cost, and counts what is rejected because a limit is reached.
//
// It never identifies callers: limits apply to everyone who reaches an address.
package limit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A Limit is the name of a limit in the metric.
type Limit string

// The limits.
const (
	AdmissionBytes          Limit = "admissionBytes"          // of admission reviews that are read at the same time
	TemplatesPerOwner       Limit = "templatesPerOwner"       // pod templates of a Deployment whose numbers are remembered
	StraysPerAgent          Limit = "straysPerAgent"          // attempts that an agent reports or has, and that are not those of a task
	UnauthorizedAgents      Limit = "unauthorizedAgents"      // pods that connect and are not agents of a swarm in scope
	UnauthorizedAttempts    Limit = "unauthorizedAttempts"    // attempts of other namespaces than the agent's, or with invalid names
	RememberedRefusals      Limit = "rememberedRefusals"      // pods whose rejection is remembered
	NumbersPerOwner         Limit = "numbersPerOwner"         // numbers of a ReplicaSet whose pods were not seen
	TasksPerNamespace       Limit = "tasksPerNamespace"       // unfinished tasks that are held in memory
	BytesPerNamespace       Limit = "bytesPerNamespace"       // what they take there
	ConnectionsPerSource    Limit = "connectionsPerSource"    // connections to the link from one address, before authentication
	QueuedBytesPerNamespace Limit = "queuedBytesPerNamespace" // of assignments that wait for agents
	HandshakesPerSource     Limit = "handshakesPerSource"     // connections to the link that come from one address within seconds
	ObjectBytes             Limit = "objectBytes"             // objects of which only a part is kept in the cache
	CacheBytesPerNamespace  Limit = "cacheBytesPerNamespace"  // objects of which less is cached, because their namespace has too many
	WebhookConnections      Limit = "webhookConnections"      // connections to the webhook: of one address, of all, or within seconds
	MetricsConnections      Limit = "metricsConnections"      // to the metrics, likewise
	HealthConnections       Limit = "healthConnections"       // to the probes, likewise
	TokenReviews            Limit = "tokenReviews"            // reviews of tokens, and of rights, that would have had to wait too long
)

var allLimits = []Limit{
	AdmissionBytes, TemplatesPerOwner, NumbersPerOwner, StraysPerAgent, UnauthorizedAgents, UnauthorizedAttempts, RememberedRefusals,
	TasksPerNamespace, BytesPerNamespace, ConnectionsPerSource, HandshakesPerSource, ObjectBytes, TokenReviews,
	WebhookConnections, MetricsConnections, HealthConnections, QueuedBytesPerNamespace, CacheBytesPerNamespace,
}

// Refusals counts rejections.
type Refusals struct {
	total *prometheus.CounterVec
}

// NewRefusals counts from 0.
func NewRefusals(registry prometheus.Registerer) *Refusals {
	r := &Refusals{total: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "swarm_limit_refused_total", Help: "Requests that were refused, or not remembered, because a limit was reached, by limit.",
	}, []string{"limit"})}
	for _, limit := range allLimits {
		r.total.WithLabelValues(string(limit)) // so that every series exists from the start
	}
	return r
}

// Count counts a rejection. A nil Refusals counts nothing.
func (r *Refusals) Count(reached Limit) {
	if r != nil {
		r.total.WithLabelValues(string(reached)).Inc()
	}
}
