package task

import (
	"fmt"
	"maps"
	"slices"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

const (
	resendEvery = 5 * time.Second
	reconnects  = 500 * time.Millisecond
	patience    = 10 * time.Second // for an operator that does not answer Hello
	remembered  = 10 * time.Second // how long the token of a deleted pod may still open a link
)

// A process is one run of swarm-agent in a pod, by the rules of packages duty, ledger and lease: every Hello lists what it runs, a result
// is repeated until it is acknowledged, epochs only grow, and it stops by its own clock. A single goroutine owns all of it.
type process struct {
	world  *cluster
	name   string
	podUID string
	id     string // of this run of the program
	slots  int
	cable  *cable

	inbox  chan func()
	killed chan struct{}

	stream         *stream
	connections    int64
	stranded       chan struct{} // if not nil, the bytes of the next connection arrive when it is closed
	welcomed       bool
	dialAt, beatAt time.Time
	helloAt        time.Time
	sequence       int64
	pending        map[int64]time.Time
	lease          agentLease
	taken, granted int64
	term           int64
	denied         time.Time // when its token expires; zero while its pod exists

	running map[linkv1.WorkKey]*job
	results []*linkv1.Result
	sentAt  map[linkv1.AttemptKey]time.Time
	newest  map[linkv1.WorkKey]int64
}

// A job is the code of one attempt.
type job struct {
	attempt  *linkv1.Attempt
	work     work
	began    time.Time
	ends     time.Time
	stopped  linkv1.Outcome
	reason   string
	fenced   bool // the lease has expired and it is being killed
	progress int32
}

// boot starts an agent process. Its inbox is unbuffered: senders wait until it receives.
func (w *cluster) boot(name, podUID string, slots int, through *cable) *process {
	p := &process{
		world: w, name: name, podUID: podUID, id: w.newProcess(), slots: slots, cable: through,
		inbox: make(chan func()), killed: make(chan struct{}), dialAt: time.Now(),
		running: map[linkv1.WorkKey]*job{}, sentAt: map[linkv1.AttemptKey]time.Time{}, newest: map[linkv1.WorkKey]int64{},
	}
	w.runs.Go(p.run)
	return p
}

// tell runs a function in the process, unless it is dead.
func (p *process) tell(do func()) {
	select {
	case p.inbox <- do:
	case <-p.killed:
	}
}

func (p *process) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.killed:
			p.die()
			return
		case do := <-p.inbox:
			do()
		case <-timer.C:
		}
		p.keepTime(time.Now())
		timer.Reset(max(0, time.Until(p.next(time.Now()))))
	}
}

// die ends all jobs as well, like Pdeathsig.
func (p *process) die() {
	for _, running := range p.running {
		p.world.journal.finish(running.attempt, "died")
	}
	p.drop()
}

func (p *process) drop() {
	if p.stream != nil {
		p.stream.discard()
		p.stream, p.welcomed = nil, false
		p.dialAt = time.Now().Add(reconnects)
	}
}

func (p *process) lost(gone *stream) {
	if p.stream == gone {
		p.drop()
	}
}

// keepTime does what is due.
func (p *process) keepTime(now time.Time) {
	p.fence(now)
	for _, running := range slices.Collect(maps.Values(p.running)) {
		if !now.Before(running.ends) {
			p.finish(running)
		}
	}
	if p.stream != nil && !p.welcomed && !now.Before(p.helloAt.Add(patience)) {
		p.drop()
	}
	if p.stream == nil && !now.Before(p.dialAt) {
		p.greet(now)
	}
	if p.welcomed && !now.Before(p.beatAt.Add(p.lease.beat())) {
		p.beat(now)
	}
	p.report(now)
	p.resend(now)
}

func (p *process) resend(now time.Time) {
	for _, result := range p.results {
		if p.welcomed && !now.Before(p.sentAt[result.GetAttempt().Key()].Add(resendEvery)) {
			p.send(result)
		}
	}
}

// fence stops jobs towards the end of the lease, and kills them at the end.
func (p *process) fence(now time.Time) {
	if p.lease.length == 0 {
		return
	}
	over := !now.Before(p.lease.end())
	if over && p.welcomed {
		p.drop()
	}
	for _, running := range p.running {
		switch {
		case over && !running.fenced:
			running.fenced = true
			running.stop(linkv1.Outcome_OUTCOME_HANDED_BACK, "LeaseExpired", now)
			running.endBy(now.Add(running.work.dies))
		case !now.Before(p.lease.stopAt()):
			running.stop(linkv1.Outcome_OUTCOME_HANDED_BACK, "LeaseExpired", now)
		}
	}
}

// next returns when something is due.
func (p *process) next(now time.Time) time.Time {
	next := now.Add(time.Hour)
	due := func(at time.Time, when bool) {
		if when && at.Before(next) {
			next = at
		}
	}
	for _, running := range p.running {
		due(running.ends, true)
		due(p.lease.stopAt(), running.stopped == 0)
		due(p.lease.end(), !running.fenced)
		due(now.Add(time.Second), running.work.reports && p.welcomed)
	}
	due(p.lease.end(), p.welcomed)
	due(p.helloAt.Add(patience), p.stream != nil && !p.welcomed)
	due(p.dialAt, p.stream == nil)
	due(p.beatAt.Add(p.lease.beat()), p.welcomed)
	for _, result := range p.results {
		due(p.sentAt[result.GetAttempt().Key()].Add(resendEvery), p.welcomed)
	}
	return next
}

// greet opens a stream if there is a leader to connect to.
func (p *process) greet(now time.Time) {
	p.dialAt = now.Add(reconnects)
	to := p.world.answering()
	if to == nil || p.cable.broken() != nil || !p.denied.IsZero() && now.After(p.denied) {
		return
	}
	p.stream, p.helloAt = p.world.dial(p, to, p.stranded), now
	p.stranded = nil
	p.connections++
	p.pending, p.sequence, p.taken, p.granted = map[int64]time.Time{0: now}, 0, 0, 0
	hello := &linkv1.Hello{
		Namespace: "default", Swarm: swarmName, Agent: p.name, Slots: int32(p.slots), Term: p.term,
		Process: p.id, Connection: p.connections,
		Unacknowledged: slices.Clone(p.results),
	}
	clear(p.sentAt)
	for _, result := range p.results {
		p.sentAt[result.GetAttempt().Key()] = now
	}
	for _, running := range p.running {
		hello.Running = append(hello.Running, running.attempt)
	}
	p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: hello}})
}

// hear handles a message of the operator.
func (p *process) hear(on *stream, message *linkv1.OperatorMessage) {
	if p.stream != on {
		return
	}
	switch kind := message.GetKind().(type) {
	case *linkv1.OperatorMessage_Welcome:
		p.enter(kind.Welcome)
	case *linkv1.OperatorMessage_Echo:
		p.echoed(kind.Echo.GetSequence())
	case *linkv1.OperatorMessage_Assign:
		p.take(kind.Assign.GetAttempt())
	case *linkv1.OperatorMessage_Cancel:
		p.cancel(kind.Cancel)
	case *linkv1.OperatorMessage_Acknowledge:
		p.forget(kind.Acknowledge.GetAttempt().Key())
	}
}

func (p *process) enter(welcome *linkv1.Welcome) {
	if welcome.GetTerm() < p.term {
		p.drop()
		return
	}
	p.term, p.welcomed, p.lease.length = welcome.GetTerm(), true, welcome.GetLease().AsDuration()
	p.echoed(0)
	p.beat(time.Now())
	p.grant()
}

func (p *process) beat(now time.Time) {
	p.sequence++
	p.beatAt = now
	p.pending[p.sequence] = now
	p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: p.sequence}}})
}

func (p *process) echoed(sequence int64) {
	if at, known := p.pending[sequence]; known && at.After(p.lease.from) {
		p.lease.from = at
	}
}

func (p *process) grant() {
	granted := max(p.granted, p.taken+int64(max(0, p.slots-len(p.running))))
	if p.welcomed && granted != p.granted {
		p.granted = granted
		p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: granted}}})
	}
}

func (p *process) String() string { return fmt.Sprintf("%s (%s)", p.name, p.podUID) }
