package task

import (
	"fmt"
	"maps"
	"slices"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

const (
	resendInterval = 5 * time.Second
	reconnectDelay = 500 * time.Millisecond
	helloTimeout   = 10 * time.Second // for an operator that does not answer Hello
	tokenLifetime  = 10 * time.Second // how long the token of a deleted pod may still open a link
)

// A process is one run of swarm-agent in a pod, by the rules of packages session, ledger and lease: every Hello lists what it runs, a
// result is repeated until it is acknowledged, epochs only grow, and it stops by its own clock. A single goroutine owns all of it.
type process struct {
	sim     *simulation
	name    string
	podUID  string
	id      string // of this run of the program
	slots   int
	network *podNetwork

	inbox  chan func()
	killed chan struct{}

	stream                       *stream
	connections                  int64
	delayUntil                   chan struct{} // if not nil, the bytes of the next connection arrive when it is closed
	welcomed                     bool
	nextDial, lastHeartbeat      time.Time
	helloSent                    time.Time
	sequence                     int64
	pendingEchoes                map[int64]time.Time
	lease                        agentLease
	assignedCount, creditGranted int64
	term                         int64
	tokenExpiry                  time.Time // when its token expires; zero while its pod exists

	jobs         map[linkv1.WorkKey]*job
	results      []*linkv1.Result
	sentAt       map[linkv1.AttemptKey]time.Time
	newestEpochs map[linkv1.WorkKey]int64
}

// A job is the code of one attempt.
type job struct {
	attempt     *linkv1.Attempt
	behavior    behavior
	startedAt   time.Time
	endsAt      time.Time
	stopOutcome linkv1.Outcome
	stopReason  string
	fenced      bool // the lease has expired and it is being killed
	progress    int32
}

// startProcess starts an agent process. Its inbox is unbuffered: senders wait until it receives.
func (sim *simulation) startProcess(name, podUID string, slots int, network *podNetwork) *process {
	p := &process{
		sim: sim, name: name, podUID: podUID, id: sim.newProcessID(), slots: slots, network: network,
		inbox: make(chan func()), killed: make(chan struct{}), nextDial: time.Now(),
		jobs: map[linkv1.WorkKey]*job{}, sentAt: map[linkv1.AttemptKey]time.Time{}, newestEpochs: map[linkv1.WorkKey]int64{},
	}
	sim.wg.Go(p.run)
	return p
}

// do runs a function in the process, unless it is dead.
func (p *process) do(do func()) {
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
			p.killJobs()
			return
		case do := <-p.inbox:
			do()
		case <-timer.C:
		}
		p.tick(time.Now())
		timer.Reset(max(0, time.Until(p.nextDeadline(time.Now()))))
	}
}

// killJobs ends all jobs as well, like Pdeathsig.
func (p *process) killJobs() {
	for _, job := range p.jobs {
		p.sim.attempts.recordEnd(job.attempt, "died")
	}
	p.dropStream()
}

func (p *process) dropStream() {
	if p.stream != nil {
		p.stream.closeByAgent()
		p.stream, p.welcomed = nil, false
		p.nextDial = time.Now().Add(reconnectDelay)
	}
}

func (p *process) onStreamEnd(stream *stream) {
	if p.stream == stream {
		p.dropStream()
	}
}

// tick does what is due.
func (p *process) tick(now time.Time) {
	p.fence(now)
	for _, job := range slices.Collect(maps.Values(p.jobs)) {
		if !now.Before(job.endsAt) {
			p.finishJob(job)
		}
	}
	if p.stream != nil && !p.welcomed && !now.Before(p.helloSent.Add(helloTimeout)) {
		p.dropStream()
	}
	if p.stream == nil && !now.Before(p.nextDial) {
		p.connect(now)
	}
	if p.welcomed && !now.Before(p.lastHeartbeat.Add(p.lease.heartbeatInterval())) {
		p.sendHeartbeat(now)
	}
	p.sendProgress(now)
	p.resendResults(now)
}

func (p *process) resendResults(now time.Time) {
	for _, result := range p.results {
		if p.welcomed && !now.Before(p.sentAt[result.GetAttempt().Key()].Add(resendInterval)) {
			p.sendResult(result)
		}
	}
}

// fence stops jobs towards the end of the lease, and kills them at the end.
func (p *process) fence(now time.Time) {
	if p.lease.length == 0 {
		return
	}
	expired := !now.Before(p.lease.end())
	if expired && p.welcomed {
		p.dropStream()
	}
	for _, job := range p.jobs {
		switch {
		case expired && !job.fenced:
			job.fenced = true
			job.stop(linkv1.Outcome_OUTCOME_HANDED_BACK, "LeaseExpired", now)
			job.endBy(now.Add(job.behavior.killDelay))
		case !now.Before(p.lease.stopAt()):
			job.stop(linkv1.Outcome_OUTCOME_HANDED_BACK, "LeaseExpired", now)
		}
	}
}

// nextDeadline returns when something is due.
func (p *process) nextDeadline(now time.Time) time.Time {
	next := now.Add(time.Hour)
	due := func(at time.Time, when bool) {
		if when && at.Before(next) {
			next = at
		}
	}
	for _, job := range p.jobs {
		due(job.endsAt, true)
		due(p.lease.stopAt(), job.stopOutcome == 0)
		due(p.lease.end(), !job.fenced)
		due(now.Add(time.Second), job.behavior.reportsProgress && p.welcomed)
	}
	due(p.lease.end(), p.welcomed)
	due(p.helloSent.Add(helloTimeout), p.stream != nil && !p.welcomed)
	due(p.nextDial, p.stream == nil)
	due(p.lastHeartbeat.Add(p.lease.heartbeatInterval()), p.welcomed)
	for _, result := range p.results {
		due(p.sentAt[result.GetAttempt().Key()].Add(resendInterval), p.welcomed)
	}
	return next
}

// connect opens a stream if there is a leader to connect to.
func (p *process) connect(now time.Time) {
	p.nextDial = now.Add(reconnectDelay)
	l := p.sim.reachableLeader()
	if l == nil || p.network.partitioned() != nil || !p.tokenExpiry.IsZero() && now.After(p.tokenExpiry) {
		return
	}
	p.stream, p.helloSent = p.sim.dial(p, l, p.delayUntil), now
	p.delayUntil = nil
	p.connections++
	p.pendingEchoes, p.sequence, p.assignedCount, p.creditGranted = map[int64]time.Time{0: now}, 0, 0, 0
	hello := &linkv1.Hello{
		Namespace: "default", Swarm: swarmName, Agent: p.name, Slots: int32(p.slots), Term: p.term,
		Process: p.id, Connection: p.connections,
		Unacknowledged: slices.Clone(p.results),
	}
	clear(p.sentAt)
	for _, result := range p.results {
		p.sentAt[result.GetAttempt().Key()] = now
	}
	for _, job := range p.jobs {
		hello.Running = append(hello.Running, job.attempt)
	}
	p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: hello}})
}

// receive handles a message of the operator.
func (p *process) receive(stream *stream, message *linkv1.OperatorMessage) {
	if p.stream != stream {
		return
	}
	switch kind := message.GetKind().(type) {
	case *linkv1.OperatorMessage_Welcome:
		p.handleWelcome(kind.Welcome)
	case *linkv1.OperatorMessage_Echo:
		p.handleEcho(kind.Echo.GetSequence())
	case *linkv1.OperatorMessage_Assign:
		p.handleAssign(kind.Assign.GetAttempt())
	case *linkv1.OperatorMessage_Cancel:
		p.handleCancel(kind.Cancel)
	case *linkv1.OperatorMessage_Acknowledge:
		p.handleAcknowledge(kind.Acknowledge.GetAttempt().Key())
	}
}

func (p *process) handleWelcome(welcome *linkv1.Welcome) {
	if welcome.GetTerm() < p.term {
		p.dropStream()
		return
	}
	p.term, p.welcomed, p.lease.length = welcome.GetTerm(), true, welcome.GetLease().AsDuration()
	p.handleEcho(0)
	p.sendHeartbeat(time.Now())
	p.sendCredit()
}

func (p *process) sendHeartbeat(now time.Time) {
	p.sequence++
	p.lastHeartbeat = now
	p.pendingEchoes[p.sequence] = now
	p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: p.sequence}}})
}

func (p *process) handleEcho(sequence int64) {
	if at, known := p.pendingEchoes[sequence]; known && at.After(p.lease.start) {
		p.lease.start = at
	}
}

func (p *process) sendCredit() {
	granted := max(p.creditGranted, p.assignedCount+int64(max(0, p.slots-len(p.jobs))))
	if p.welcomed && granted != p.creditGranted {
		p.creditGranted = granted
		p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: granted}}})
	}
}

func (p *process) String() string { return fmt.Sprintf("%s (%s)", p.name, p.podUID) }
