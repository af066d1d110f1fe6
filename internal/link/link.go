// Package link is the operator's end of the link: it accepts streams from agents, authenticates them, and carries
// messages between them and the dispatcher.
//
// It promises:
//   - An agent gets no message before the API server, or a signature by its keys, has proven that the token belongs to the
//     agent's pod.
//   - An agent has at most one stream; a newer one replaces it. Lease, Joined, Received and Left of an agent are called in
//     that order, never concurrently.
//   - Nothing is sent, not even an echo, while this process does not lead. An agent that receives no echo stops its work,
//     so a leader that was frozen cannot keep work alive that another has given away.
//   - Whatever an agent or a stranger does costs a bounded amount of memory: frames, streams, connections, queues and
//     rates have limits, and each refusal is counted. Messages that are received but not handled yet are bounded in total
//     and per namespace.
//   - Other replicas connect to the same port and show a certificate, which agents do not have. A separate server handles
//     them, so that their cost and that of agents are bounded separately.
//
// It never decides what an agent should do, and it never writes to the API server.
package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/limit"
)

// An Agent is named by its namespace and its pod's name.
type Agent struct {
	Namespace, Name string
}

func (a Agent) String() string { return a.Namespace + "/" + a.Name }

// An Identity is what a token proves: a pod.
type Identity struct {
	Namespace, Pod, PodUID string
}

func (i Identity) agent() Agent { return Agent{Namespace: i.Namespace, Name: i.Pod} }

// An Authenticator finds out which pod a token belongs to. ErrDenied is final; any other error means that the token could not be checked.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (Identity, error)
}

// Certificates returns the certificate for a new connection, so that it can be renewed while the server runs.
type Certificates interface {
	Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// Leadership reports whether this process may send.
type Leadership interface {
	// Leading is called before each message is sent. It must answer from memory, and return false as soon as the last
	// renewal of the Lease is too old on the monotonic clock.
	Leading() (term int64, leading bool)
	// Leader returns the address of the leader's link, or "" if it is unknown.
	Leader() string
}

// Events receives what agents send, except heartbeats, which are answered here. No method may block: the agent's stream waits for it.
type Events interface {
	// Joined may refuse the agent by returning an error, which is sent to it. Messages that are sent to the agent from
	// within Joined follow the Welcome. The term in Hello is proven, or 0.
	Joined(agent Agent, podUID string, hello *linkv1.Hello) error
	// Received also gets the first heartbeat, and no other. An agent sends it after the Welcome, so it proves that the agent
	// is still at the other end of this stream; Hello may have been in transit for a long time.
	Received(agent Agent, message *linkv1.AgentMessage)
	// Left is called once for every stream for which Lease was called, even if Joined refused it or was never called. The agent may
	// continue to work until its lease expires: see Server.LastHeard.
	Left(agent Agent)
}

// Terms proves terms to later leaders, because an agent can claim any term.
type Terms interface {
	// Prove returns nil if it cannot prove anything yet.
	Prove(term int64) []byte
	Proven(term int64, proof []byte) bool
}

// Leases decides how long agents continue to work without an echo.
type Leases interface {
	// Lease is called for each stream, before the agent joins and before LastHeard counts its Hello.
	Lease(agent Agent, hello *linkv1.Hello) time.Duration
}

// Config configures a Server. All fields but Terms, Limits, Refusals and Peers must be set.
type Config struct {
	Certificates  Certificates
	Authenticator Authenticator
	Leadership    Leadership
	Events        Events
	Leases        Leases
	Terms         Terms // nil: terms are not proven
	// Ready is closed when agents can join. Before that they are welcomed and their heartbeats are answered, so that no work
	// stops while the consumer reads its initial state.
	Ready    <-chan struct{}
	Metrics  prometheus.Registerer
	Limits   Limits
	Refusals *limit.Refusals // counts connections that are refused because of their source
	Peers    Peers
}

// Peers configures what other replicas of the operator can call at the same port. The zero value disables it.
type Peers struct {
	// ClientCAs is called for each connection: a certificate that it has not signed is refused together with the connection.
	ClientCAs func(context.Context) *x509.CertPool
	// Register adds services. Callers without a certificate reach them too, and the services have to refuse them.
	Register func(grpc.ServiceRegistrar)
}

func (p Peers) enabled() bool { return p.ClientCAs != nil && p.Register != nil }

// Limits bound what agents and strangers can cost. Zero fields get the default.
type Limits struct {
	FrameBytes  int // largest message in either direction; 1 MiB
	Connections int // all connections; 10,000, of which half are reserved for proven ones
	// ConnectionsPerSource bounds the open connections of one address that are not, or no longer, proven to be an agent's;
	// 64. An IPv6 address counts by its first 64 bits.
	ConnectionsPerSource int
	StreamsPerAgent      int // streams of one agent, while a new one replaces the old; 3
	// HelloInterval is how often one agent may connect on average, HelloBurst how often at once; 2 s and 10. For each Hello,
	// the consumer checks the agent and everything that it runs. An agent that keeps losing its link reconnects after 0.2 to
	// 3 s.
	HelloInterval     time.Duration
	HelloBurst        int
	MessagesPerSecond int // of one agent, on average; 100. Faster agents are read more slowly
	QueueMessages     int // waiting for one agent; 2,048. Agents that read too slowly are cut off
	QueueBytes        int // likewise; 4 MiB
	// QueueBytesPerNamespace bounds the assignments that wait for all agents of a namespace; 64 MiB.
	QueueBytesPerNamespace int
	// ReceivedBytes bounds what is received but not handled yet, for all agents; 128 MiB, an eighth of the operator's
	// memory. The agents of one namespace get at most half of it: enough for 5,000 agents to say Hello to a leader that is
	// not ready yet, 13 KiB each.
	ReceivedBytes int
	HelloTimeout  time.Duration // from connection to Hello; 10 s
}

func (l Limits) withDefaults() Limits {
	for field, defaultValue := range map[*int]int{
		&l.FrameBytes: 1 << 20, &l.Connections: 10_000, &l.ConnectionsPerSource: 64, &l.StreamsPerAgent: 3, &l.HelloBurst: 10,
		&l.MessagesPerSecond: 100, &l.QueueMessages: 2048, &l.QueueBytes: 4 << 20, &l.QueueBytesPerNamespace: 64 << 20,
		&l.ReceivedBytes: 128 << 20,
	} {
		if *field == 0 {
			*field = defaultValue
		}
	}
	l.HelloTimeout = cmp.Or(l.HelloTimeout, 10*time.Second)
	l.HelloInterval = cmp.Or(l.HelloInterval, 2*time.Second)
	return l
}

// Errors of Send. None of them means that the agent has stopped working.
var (
	ErrNotLinked   = errors.New("agent is not linked")
	ErrNotLeading  = errors.New("this process does not lead")
	ErrNoCredit    = errors.New("agent has granted no credit")
	ErrUnsupported = errors.New("agent does not know this kind of message")
	ErrTooLarge    = errors.New("message is above the frame limit")
	ErrTooSlow     = errors.New("agent reads too slowly")
	ErrNoRoom      = errors.New("too many assignments wait for this agent: try again later")
)

// ErrDenied means that a token proves nothing here.
var ErrDenied = errors.New("token denied")
