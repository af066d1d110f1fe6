package link

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// refusalReason is why a connection or a stream was turned away or cut off. The set is small and fixed: it labels a metric.
type refusalReason string

const (
	refusedConnections refusalReason = "too_many_connections"
	refusedHandshake   refusalReason = "handshake"
	refusedNoStream    refusalReason = "no_stream"
	refusedNoToken     refusalReason = "no_token"
	refusedToken       refusalReason = "token_denied"
	refusedUnproven    refusalReason = "token_unproven"
	refusedIdentity    refusalReason = "other_agent"
	refusedHello       refusalReason = "no_hello"
	refusedNames       refusalReason = "long_names"
	refusedProtocol    refusalReason = "unsupported_protocol"
	refusedPerAgent    refusalReason = "too_many_streams"
	refusedHellos      refusalReason = "too_many_hellos"
	refusedReceived    refusalReason = "too_much_received"
	refusedByConsumer  refusalReason = "not_wanted"
	refusedOversize    refusalReason = "oversize_frame"
	refusedMalformed   refusalReason = "malformed_frame"
	refusedSlow        refusalReason = "slow_reader"
	refusedSilent      refusalReason = "silent"
	refusedReplaced    refusalReason = "replaced"
	refusedOutdated    refusalReason = "outdated"
	refusedEnded       refusalReason = "ended_by_operator"
	refusedRedirected  refusalReason = "redirected"
)

var refusalReasons = []refusalReason{
	refusedConnections, refusedHandshake, refusedNoStream, refusedNoToken, refusedToken, refusedUnproven, refusedIdentity, refusedHello,
	refusedNames,
	refusedProtocol, refusedPerAgent, refusedHellos, refusedReceived, refusedByConsumer, refusedOversize, refusedMalformed,
	refusedSlow, refusedSilent, refusedReplaced, refusedOutdated, refusedEnded, refusedRedirected,
}

// Reasons for which messages are dropped.
const (
	droppedUnknown      = "unknown_kind"
	droppedNotLeading   = "not_leading"
	droppedNotLinked    = "not_linked"
	droppedNoCredit     = "no_credit"
	droppedUnsupported  = "unsupported"
	droppedTooLarge     = "too_large"
	droppedSlow         = "slow_reader"
	droppedNoRoom       = "no_room"
	droppedSuperseded   = "superseded"
	droppedUnprovenTerm = "unproven_term"
)

var dropReasons = []string{
	droppedUnknown, droppedNotLeading, droppedNotLinked, droppedNoCredit, droppedUnsupported, droppedTooLarge, droppedSlow, droppedNoRoom,
	droppedSuperseded, droppedUnprovenTerm,
}

// metrics are never labelled by the name of an object: a large swarm must not make a large metric.
type metrics struct {
	connections  prometheus.Gauge
	linkedAgents prometheus.Gauge
	throttled    prometheus.Counter
	stalled      prometheus.Counter
	refused      *prometheus.CounterVec
	messages     *prometheus.CounterVec
	dropped      *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	factory := promauto.With(registry)
	m := &metrics{
		connections: factory.NewGauge(prometheus.GaugeOpts{
			Name: "swarm_link_connections", Help: "Open connections to the link, proven or not."}),
		linkedAgents: factory.NewGauge(prometheus.GaugeOpts{
			Name: "swarm_link_agents", Help: "Agents that are linked now."}),
		throttled: factory.NewCounter(prometheus.CounterOpts{
			Name: "swarm_link_throttled_total", Help: "Messages that had to wait because their agent sends too many."}),
		stalled: factory.NewCounter(prometheus.CounterOpts{
			Name: "swarm_link_stalled_total", Help: "Messages that had to wait because too many of their agent wait already."}),
		refused: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "swarm_link_refused_total", Help: "Connections and streams that were refused or cut off, by reason."}, []string{"reason"}),
		messages: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "swarm_link_messages_total", Help: "Messages by direction (received, sent) and kind."}, []string{"direction", "kind"}),
		dropped: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "swarm_link_dropped_total", Help: "Messages that were not passed on, by reason."}, []string{"reason"}),
	}
	// A counter that is absent until its first event hides that event from rate().
	for _, reason := range refusalReasons {
		m.refused.WithLabelValues(string(reason))
	}
	for _, reason := range dropReasons {
		m.dropped.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) refuse(reason refusalReason) { m.refused.WithLabelValues(string(reason)).Inc() }
func (m *metrics) drop(reason string)          { m.dropped.WithLabelValues(reason).Inc() }
func (m *metrics) received(kind string)        { m.messages.WithLabelValues("received", kind).Inc() }
func (m *metrics) sent(kind string)            { m.messages.WithLabelValues("sent", kind).Inc() }

// messageKind names what is in a message: hello, assign and so on, "unknown" when it is from a later version.
func messageKind(message protoreflect.ProtoMessage) string {
	reflected := message.ProtoReflect()
	field := reflected.WhichOneof(reflected.Descriptor().Oneofs().ByName("kind"))
	if field == nil {
		return "unknown"
	}
	return string(field.Name())
}
