package link

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// refusal is why a connection or a stream was turned away or cut off. The set is small and fixed: it labels a metric.
type refusal string

const (
	refusedConnections refusal = "too_many_connections"
	refusedHandshake   refusal = "handshake"
	refusedNoStream    refusal = "no_stream"
	refusedNoToken     refusal = "no_token"
	refusedToken       refusal = "token_denied"
	refusedUnproven    refusal = "token_unproven"
	refusedIdentity    refusal = "other_agent"
	refusedHello       refusal = "no_hello"
	refusedNames       refusal = "long_names"
	refusedProtocol    refusal = "unsupported_protocol"
	refusedPerAgent    refusal = "too_many_streams"
	refusedHellos      refusal = "too_many_hellos"
	refusedReceived    refusal = "too_much_received"
	refusedByConsumer  refusal = "not_wanted"
	refusedOversize    refusal = "oversize_frame"
	refusedMalformed   refusal = "malformed_frame"
	refusedSlow        refusal = "slow_reader"
	refusedSilent      refusal = "silent"
	refusedReplaced    refusal = "replaced"
	refusedOutdated    refusal = "outdated"
	refusedEnded       refusal = "ended_by_operator"
	refusedRedirected  refusal = "redirected"
)

var refusals = []refusal{
	refusedConnections, refusedHandshake, refusedNoStream, refusedNoToken, refusedToken, refusedUnproven, refusedIdentity, refusedHello, refusedNames,
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

var drops = []string{
	droppedUnknown, droppedNotLeading, droppedNotLinked, droppedNoCredit, droppedUnsupported, droppedTooLarge, droppedSlow, droppedNoRoom,
	droppedSuperseded, droppedUnprovenTerm,
}

// metrics are never labelled by the name of an object: a large swarm must not make a large metric.
type metrics struct {
	transports prometheus.Gauge
	linked     prometheus.Gauge
	throttled  prometheus.Counter
	stalled    prometheus.Counter
	refused    *prometheus.CounterVec
	messages   *prometheus.CounterVec
	dropped    *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	factory := promauto.With(registry)
	m := &metrics{
		transports: factory.NewGauge(prometheus.GaugeOpts{
			Name: "swarm_link_connections", Help: "Open connections to the link, proven or not."}),
		linked: factory.NewGauge(prometheus.GaugeOpts{
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
	for _, why := range refusals {
		m.refused.WithLabelValues(string(why))
	}
	for _, why := range drops {
		m.dropped.WithLabelValues(why)
	}
	return m
}

func (m *metrics) refuse(why refusal)   { m.refused.WithLabelValues(string(why)).Inc() }
func (m *metrics) drop(why string)      { m.dropped.WithLabelValues(why).Inc() }
func (m *metrics) received(kind string) { m.messages.WithLabelValues("received", kind).Inc() }
func (m *metrics) sent(kind string)     { m.messages.WithLabelValues("sent", kind).Inc() }

// kindOf names what is in a message: hello, assign and so on, "unknown" when it is from a later version.
func kindOf(message protoreflect.ProtoMessage) string {
	reflected := message.ProtoReflect()
	chosen := reflected.WhichOneof(reflected.Descriptor().Oneofs().ByName("kind"))
	if chosen == nil {
		return "unknown"
	}
	return string(chosen.Name())
}
