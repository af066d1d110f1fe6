package task

import (
	"sync"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// A cable is the network of a pod: the latency of messages, and whether they wait for it to be mended.
type cable struct {
	mu      sync.Mutex
	mended  chan struct{} // not nil while it is cut
	latency time.Duration
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mended == nil {
		c.mended = make(chan struct{})
	}
}

func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mended != nil {
		close(c.mended)
		c.mended = nil
	}
}

func (c *cable) broken() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mended
}

func (c *cable) delay() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latency
}

// A pipe carries messages one way, in order. The nil message is the end of the stream.
type pipe[M any] struct {
	cable   *cable
	held    <-chan struct{} // if not nil, nothing arrives before it is closed
	deliver func(M)
	ended   func() // the end has arrived

	mu     sync.Mutex
	queue  []parcel[M]
	news   chan struct{}
	closed chan struct{} // the receiver is gone
	once   sync.Once
}

type parcel[M any] struct {
	message M
	end     bool
	due     time.Time
}

func newPipe[M any](through *cable) *pipe[M] {
	return &pipe[M]{cable: through, news: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (p *pipe[M]) push(message M) { p.add(parcel[M]{message: message}) }

func (p *pipe[M]) add(one parcel[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.due = time.Now().Add(p.cable.delay())
	p.queue = append(p.queue, one)
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// clear drops messages in transit.
func (p *pipe[M]) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = nil
}

func (p *pipe[M]) first() (parcel[M], bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return parcel[M]{}, false
	}
	one := p.queue[0]
	p.queue = p.queue[1:]
	return one, true
}

func (p *pipe[M]) close() { p.once.Do(func() { close(p.closed) }) }

func (p *pipe[M]) over() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

func (p *pipe[M]) run() {
	for !p.over() {
		one, found := p.first()
		switch {
		case !found:
			select {
			case <-p.news:
			case <-p.closed:
			}
		case !p.carry(one):
			return
		}
	}
}

// carry delivers one message; false if the stream ends with it.
func (p *pipe[M]) carry(one parcel[M]) bool {
	if wait := time.Until(one.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.closed:
			return false
		}
	}
	if p.held != nil {
		<-p.held
	}
	for mended := p.cable.broken(); mended != nil; mended = p.cable.broken() {
		select {
		case <-mended:
		case <-p.closed:
			return false
		}
	}
	if one.end {
		p.ended()
		return false
	}
	if !p.over() {
		p.deliver(one.message)
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
func (w *cluster) dial(from *process, to *leader, held <-chan struct{}) *stream {
	s := &stream{
		agent: link.Agent{Namespace: "default", Name: from.name}, podUID: from.podUID,
		up: newPipe[*linkv1.AgentMessage](from.cable), down: newPipe[*linkv1.OperatorMessage](from.cable),
	}
	s.up.held = held
	s.up.deliver = func(message *linkv1.AgentMessage) { to.wire.receive(s, message) }
	s.up.ended = func() { to.wire.endOf(s) }
	s.down.deliver = func(message *linkv1.OperatorMessage) { from.tell(func() { from.hear(s, message) }) }
	s.down.ended = func() { from.tell(func() { from.lost(s) }) }
	w.runs.Go(s.up.run)
	w.runs.Go(s.down.run)
	return s
}

// hangUp closes the operator's end of the stream: it receives nothing more, and the agent is notified.
func (s *stream) hangUp() {
	s.up.close()
	s.down.add(parcel[*linkv1.OperatorMessage]{end: true})
}

// discard closes the agent's end.
func (s *stream) discard() {
	s.down.close()
	s.up.add(parcel[*linkv1.AgentMessage]{end: true})
}
