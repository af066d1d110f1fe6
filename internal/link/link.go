// Package link is the operator's end of the link: it takes the streams of agents, proves who they are, and carries
// messages between them and whoever dispatches work.
//
// It promises:
//   - An agent is only ever spoken to after the API server has vouched for its token, itself or by its keys, and the token's pod is the agent.
//   - Of one agent there is at most one stream; a newer one replaces it. Lease, Joined, Received and Left of an agent are
//     called one after the other, in that order, never at the same time.
//   - Nothing is said, not even an echo, while this process does not lead. An agent that hears no echo stops its work,
//     so a leader that was frozen cannot keep work alive that another has given away.
//   - Whatever an agent or a stranger does costs a bounded amount of memory: frames, streams, connections, queues and
//     rates have limits, and each refusal is counted. What is received and not handled yet is bounded in sum, and for each namespace.
//   - Other replicas come to the same port and show a certificate, which agents have none of. They meet a server of their own, so that
//     what they may cost and what agents may cost are two things.
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

// An Authenticator knows whose token it is. An error that is ErrDenied is final; any other means that nobody could tell.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (Identity, error)
}

// Certificates gives the certificate for a new connection, so that it can be renewed while the server runs.
type Certificates interface {
	Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// Leadership says who may speak.
type Leadership interface {
	// Leading is asked before everything that is sent. It must answer from memory, and say no as soon as the last renewal
	// of the Lease is too old on the monotonic clock.
	Leading() (term int64, leading bool)
	// Leader is the address of the leader's link, "" while unknown.
	Leader() string
}

// Events hears what agents say. Heartbeats are answered here. No method may block: the agent's stream
// waits for it.
type Events interface {
	// Joined may refuse the agent by an error, which is told to it. What is sent to the agent from within Joined follows
	// the Welcome. The term in Hello is proven, or 0.
	Joined(agent Agent, podUID string, hello *linkv1.Hello) error
	// Received gets the first heartbeat as well, and no other. An agent sends it after the Welcome, so it proves that the agent is at the other end
	// of this stream still: Hello may have been under way for long.
	Received(agent Agent, message *linkv1.AgentMessage)
	// Left is called once for every stream for which Lease was called, even if Joined refused it or was never called. The agent may still
	// work until its lease is over: see Server.LastHeard.
	Left(agent Agent)
}

// Terms proves terms to later leaders, because an agent may name any number.
type Terms interface {
	// Prove returns nil if it cannot prove anything yet.
	Prove(term int64) []byte
	Proven(term int64, proof []byte) bool
}

// Leases decides how long agents work on without an echo.
type Leases interface {
	// Lease is asked for each stream, before the agent joins and before LastHeard counts its Hello.
	Lease(agent Agent, hello *linkv1.Hello) time.Duration
}

// Config is what a Server needs. All fields but Terms, Limits, Refusals and Peers must be set.
type Config struct {
	Certificates  Certificates
	Authenticator Authenticator
	Leadership    Leadership
	Events        Events
	Leases        Leases
	Terms         Terms // nil: no term is proven
	// Ready is closed when agents can join. Before that they are welcomed and their heartbeats are answered, so that nothing stops while the consumer
	// reads what it must know first.
	Ready    <-chan struct{}
	Metrics  prometheus.Registerer
	Limits   Limits
	Refusals *limit.Refusals // counts connections that are refused for where they come from
	Peers    Peers
}

// Peers is what other replicas of the operator may ask for at the same port. The zero value is nothing.
type Peers struct {
	// Authority is asked at each connection: a certificate that it has not signed is refused with the connection.
	Authority func(context.Context) *x509.CertPool
	// Register adds services. They are also reached by callers without a certificate, and have to refuse them.
	Register func(grpc.ServiceRegistrar)
}

func (p Peers) wanted() bool { return p.Authority != nil && p.Register != nil }

// Limits bound what agents and strangers can cost. A zero field has the default.
type Limits struct {
	FrameBytes  int // largest message, either way; 1 MiB
	Connections int // all connections; 10,000, of which half are kept for those that are proven
	// ConnectionsPerSource is how many connections of one address may be open whose agents are not known yet, or no more; 64. An IPv6 address counts
	// by its first 64 bits.
	ConnectionsPerSource int
	PerAgent             int // streams of one agent, while a new one replaces the old; 3
	// HelloEvery is how often one agent may connect on average, HelloBurst how often at once; 2 s and 10. Each Hello costs the consumer a check of
	// the agent, and a look at everything that it runs. An agent that loses its link again and again comes back after 0.2 to 3 s.
	HelloEvery        time.Duration
	HelloBurst        int
	MessagesPerSecond int // of one agent, on average; 100. Who sends more is read more slowly
	QueueMessages     int // waiting for one agent; 2,048. Who reads too slowly is cut off
	QueueBytes        int // likewise; 4 MiB
	// QueueBytesPerNamespace is what the assignments may take that wait for all agents of a namespace; 64 MiB.
	QueueBytesPerNamespace int
	// ReceivedBytes is what may be received and not handled yet, of all agents; 128 MiB, an eighth of what the operator may take. The agents
	// of one namespace get half of it at most: with that, 5,000 agents can say Hello to a leader that is not ready yet, 13 KiB each.
	ReceivedBytes int
	HelloTimeout  time.Duration // from connection to Hello; 10 s
}

func (l Limits) withDefaults() Limits {
	for field, standard := range map[*int]int{
		&l.FrameBytes: 1 << 20, &l.Connections: 10_000, &l.ConnectionsPerSource: 64, &l.PerAgent: 3, &l.HelloBurst: 10,
		&l.MessagesPerSecond: 100, &l.QueueMessages: 2048, &l.QueueBytes: 4 << 20, &l.QueueBytesPerNamespace: 64 << 20,
		&l.ReceivedBytes: 128 << 20,
	} {
		if *field == 0 {
			*field = standard
		}
	}
	l.HelloTimeout = cmp.Or(l.HelloTimeout, 10*time.Second)
	l.HelloEvery = cmp.Or(l.HelloEvery, 2*time.Second)
	return l
}

// Errors of Send. None of them says that the agent has stopped working.
var (
	ErrNotLinked   = errors.New("agent is not linked")
	ErrNotLeading  = errors.New("this process does not lead")
	ErrNoCredit    = errors.New("agent has granted no credit")
	ErrUnsupported = errors.New("agent does not know this kind of message")
	ErrTooLarge    = errors.New("message is above the frame limit")
	ErrTooSlow     = errors.New("agent reads too slowly")
	ErrNoRoom      = errors.New("too many assignments wait for this agent: try again later")
)

// ErrDenied says that a token proves nothing here.
var ErrDenied = errors.New("token denied")
