// Package limit bounds what callers may cost, and counts what is refused because a bound is reached.
//
// It never decides who a caller is: bounds hold for everyone who reaches an address.
package limit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A Limit names a bound in the metric.
type Limit string

// The limits.
const (
	AdmissionBytes          Limit = "admissionBytes"          // of admission reviews that are read at the same time
	TemplatesPerOwner       Limit = "templatesPerOwner"       // pod templates of a Deployment whose numbers are remembered
	StraysPerAgent          Limit = "straysPerAgent"          // attempts that an agent reports or has, and that are not those of a task
	UnauthorizedAgents      Limit = "unauthorizedAgents"      // pods that connect and are not agents of a swarm in scope
	UnauthorizedAttempts    Limit = "unauthorizedAttempts"    // attempts that are not of the agent's namespace, or are none
	RememberedRefusals      Limit = "rememberedRefusals"      // pods of which it is remembered that they were refused
	NumbersPerOwner         Limit = "numbersPerOwner"         // numbers of a ReplicaSet whose pods were not seen
	TasksPerNamespace       Limit = "tasksPerNamespace"       // unfinished tasks that are held in memory
	BytesPerNamespace       Limit = "bytesPerNamespace"       // what they take there
	ConnectionsPerSource    Limit = "connectionsPerSource"    // connections to the link from one address whose agents are not known yet
	QueuedBytesPerNamespace Limit = "queuedBytesPerNamespace" // of assignments that wait for agents
	HandshakesPerSource     Limit = "handshakesPerSource"     // connections to the link that come from one address within seconds
	ObjectBytes             Limit = "objectBytes"             // objects of which only a part is kept in the cache
	CacheBytesPerNamespace  Limit = "cacheBytesPerNamespace"  // objects of which less is cached, because so much is of their namespace
	WebhookConnections      Limit = "webhookConnections"      // connections to the webhook, of one address, of all, or within seconds
	MetricsConnections      Limit = "metricsConnections"      // to the metrics, likewise
	HealthConnections       Limit = "healthConnections"       // to the probes, likewise
	TokenReviews            Limit = "tokenReviews"            // reviews of tokens, and of rights, that would have had to wait for too long
)

var all = []Limit{
	AdmissionBytes, TemplatesPerOwner, NumbersPerOwner, StraysPerAgent, UnauthorizedAgents, UnauthorizedAttempts, RememberedRefusals,
	TasksPerNamespace, BytesPerNamespace, ConnectionsPerSource, HandshakesPerSource, ObjectBytes, TokenReviews,
	WebhookConnections, MetricsConnections, HealthConnections, QueuedBytesPerNamespace, CacheBytesPerNamespace,
}

// Refusals counts what was refused.
type Refusals struct {
	total *prometheus.CounterVec
}

// NewRefusals counts from 0.
func NewRefusals(registry prometheus.Registerer) *Refusals {
	r := &Refusals{total: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "swarm_limit_refused_total", Help: "Requests that were refused, or not remembered, because a limit was reached, by limit.",
	}, []string{"limit"})}
	for _, each := range all {
		r.total.WithLabelValues(string(each)) // so that none is missing before it is first reached
	}
	return r
}

// Count counts a refusal. A nil Refusals counts nothing.
func (r *Refusals) Count(reached Limit) {
	if r != nil {
		r.total.WithLabelValues(string(reached)).Inc()
	}
}
