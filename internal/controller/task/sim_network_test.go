package task

import (
	"sync"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// A podNetwork is the network of a pod: the latency of messages, and whether they wait for it to be mended.
type podNetwork struct {
	mu      sync.Mutex
	healed  chan struct{} // not nil while it is cut
	latency time.Duration
}

func (n *podNetwork) partition() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.healed == nil {
		n.healed = make(chan struct{})
	}
}

func (n *podNetwork) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.healed != nil {
		close(n.healed)
		n.healed = nil
	}
}

func (n *podNetwork) partitioned() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.healed
}

func (n *podNetwork) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.latency
}

// A pipe carries messages one way, in order. The nil message is the end of the stream.
type pipe[M any] struct {
	network      *podNetwork
	blockedUntil <-chan struct{} // if not nil, nothing arrives before it is closed
	deliver      func(M)
	onEnd        func() // the end has arrived

	mu     sync.Mutex
	queue  []packet[M]
	notify chan struct{}
	closed chan struct{} // the receiver is gone
	once   sync.Once
}

type packet[M any] struct {
	message M
	end     bool
	due     time.Time
}

func newPipe[M any](network *podNetwork) *pipe[M] {
	return &pipe[M]{network: network, notify: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (p *pipe[M]) push(message M) { p.add(packet[M]{message: message}) }

func (p *pipe[M]) add(packet packet[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	packet.due = time.Now().Add(p.network.delay())
	p.queue = append(p.queue, packet)
	select {
	case p.notify <- struct{}{}:
	default:
	}
}

// clear drops messages in transit.
func (p *pipe[M]) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = nil
}

func (p *pipe[M]) first() (packet[M], bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return packet[M]{}, false
	}
	packet := p.queue[0]
	p.queue = p.queue[1:]
	return packet, true
}

func (p *pipe[M]) close() { p.once.Do(func() { close(p.closed) }) }

func (p *pipe[M]) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

func (p *pipe[M]) run() {
	for !p.isClosed() {
		packet, found := p.first()
		switch {
		case !found:
			select {
			case <-p.notify:
			case <-p.closed:
			}
		case !p.transmit(packet):
			return
		}
	}
}

// transmit delivers one message; false if the stream ends with it.
func (p *pipe[M]) transmit(packet packet[M]) bool {
	if wait := time.Until(packet.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.closed:
			return false
		}
	}
	if p.blockedUntil != nil {
		<-p.blockedUntil
	}
	for mended := p.network.partitioned(); mended != nil; mended = p.network.partitioned() {
		select {
		case <-mended:
		case <-p.closed:
			return false
		}
	}
	if packet.end {
		p.onEnd()
		return false
	}
	if !p.isClosed() {
		p.deliver(packet.message)
	}
	return true
}

// A stream connects one process with one leader.
type stream struct {
	agent  link.Agent
	podUID string
	up     *pipe[*linkv1.AgentMessage]
	down   *pipe[*linkv1.OperatorMessage]
}

// dial opens a stream without messages. The agent's messages arrive when held is closed, if it is not nil.
func (sim *simulation) dial(from *process, l *leader, blockedUntil <-chan struct{}) *stream {
	s := &stream{
		agent: link.Agent{Namespace: "default", Name: from.name}, podUID: from.podUID,
		up: newPipe[*linkv1.AgentMessage](from.network), down: newPipe[*linkv1.OperatorMessage](from.network),
	}
	s.up.blockedUntil = blockedUntil
	s.up.deliver = func(message *linkv1.AgentMessage) { l.link.receive(s, message) }
	s.up.onEnd = func() { l.link.endStream(s) }
	s.down.deliver = func(message *linkv1.OperatorMessage) { from.do(func() { from.receive(s, message) }) }
	s.down.onEnd = func() { from.do(func() { from.onStreamEnd(s) }) }
	sim.wg.Go(s.up.run)
	sim.wg.Go(s.down.run)
	return s
}

// closeByOperator closes the operator's end of the stream: it receives nothing more, and the agent is notified.
func (s *stream) closeByOperator() {
	s.up.close()
	s.down.add(packet[*linkv1.OperatorMessage]{end: true})
}

// closeByAgent closes the agent's end.
func (s *stream) closeByAgent() {
	s.down.close()
	s.up.add(packet[*linkv1.AgentMessage]{end: true})
}
