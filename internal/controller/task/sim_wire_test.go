package task

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// A wire is the operator's end of the link, by the rules of package link: one session per agent, credit, echoes only while leading, and
// the end of a session after two leases of silence.
type wire struct {
	leader *leader

	mu       sync.Mutex
	sessions map[link.Agent]*session
	heard    map[link.Agent]time.Time
	turns    map[link.Agent]*sync.Mutex // serializes the events of one agent
	latest   map[string]int64           // last connection of each process
}

type session struct {
	agent             link.Agent
	stream            *stream
	term              int64
	granted, assigned int64
	deaf              bool
	silence           *time.Timer
}

func newWire(l *leader) *wire {
	return &wire{
		leader: l, sessions: map[link.Agent]*session{}, heard: map[link.Agent]time.Time{}, turns: map[link.Agent]*sync.Mutex{},
		latest: map[string]int64{},
	}
}

// turn locks the events of an agent until the returned function is called.
func (w *wire) turn(agent link.Agent) (end func()) {
	w.mu.Lock()
	mine := w.turns[agent]
	if mine == nil {
		mine = &sync.Mutex{}
		w.turns[agent] = mine
	}
	w.mu.Unlock()
	mine.Lock()
	return mine.Unlock
}

// Send implements dispatch.Link.
func (w *wire) Send(to link.Agent, message *linkv1.OperatorMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	linked := w.sessions[to]
	switch {
	case linked == nil:
		return link.ErrNotLinked
	case !w.leader.leads() || linked.term != w.leader.Term():
		w.leader.world.runs.Go(func() { w.end(linked) })
		return link.ErrNotLeading
	case message.GetAssign() != nil && linked.assigned >= linked.granted:
		return link.ErrNoCredit
	case message.GetAssign() != nil:
		linked.assigned++
		w.leader.world.journal.assign(message.GetAssign())
	}
	linked.stream.down.push(message)
	return nil
}

// LastHeard implements dispatch.Link.
func (w *wire) LastHeard(agent link.Agent) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	heard, known := w.heard[agent]
	return heard, known
}

// Disconnect implements dispatch.Link. A stream that is ended in another goroutine receives nothing from now on.
func (w *wire) Disconnect(agent link.Agent, unheardSince time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard[agent].After(unheardSince) {
		return false
	}
	if linked := w.sessions[agent]; linked != nil {
		linked.deaf = true
		w.leader.world.runs.Go(func() { w.end(linked) })
	}
	return true
}

// receive handles a message of an agent, the first of which is Hello.
func (w *wire) receive(from *stream, message *linkv1.AgentMessage) {
	defer w.turn(from.agent)()
	if hello := message.GetHello(); hello != nil {
		w.welcome(from, hello)
		return
	}
	w.mu.Lock()
	linked := w.sessions[from.agent]
	if linked == nil || linked.stream != from || linked.deaf {
		w.mu.Unlock()
		return
	}
	if credit := message.GetCredit(); credit != nil {
		linked.granted = max(linked.granted, credit.GetGranted())
	}
	if message.GetHeartbeat() != nil {
		w.heard[from.agent] = time.Now()
		linked.silence.Reset(2 * w.leader.world.lease)
	}
	w.mu.Unlock()
	if beat := message.GetHeartbeat(); beat != nil {
		_ = w.Send(from.agent, &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Echo{Echo: &linkv1.Echo{Sequence: beat.GetSequence()}}})
	}
	w.leader.board.Received(from.agent, message)
}

// welcome replaces the session of an agent. The caller must hold the agent's turn.
func (w *wire) welcome(from *stream, hello *linkv1.Hello) {
	if !w.leader.leads() || !w.leader.board.Opened() || !w.arrive(hello) {
		from.hangUp()
		return
	}
	w.mu.Lock()
	before := w.sessions[from.agent]
	w.mu.Unlock()
	if before != nil {
		w.leave(before)
	}
	made := &session{agent: from.agent, stream: from, term: w.leader.Term()}
	made.silence = time.AfterFunc(2*w.leader.world.lease, func() { w.end(made) })
	w.mu.Lock()
	w.sessions[from.agent], w.heard[from.agent] = made, time.Now()
	w.mu.Unlock()
	from.down.push(&linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Welcome{Welcome: &linkv1.Welcome{Term: made.term, Lease: durationpb.New(w.leader.world.lease)}}})
	if w.leader.board.Joined(from.agent, from.podUID, hello) != nil {
		w.remove(made)
		from.down.clear()
		from.hangUp()
		return
	}
	if w.leader.world.without.connectionNumbers { // a link that accepts any Hello does not wait for the answer to Welcome either
		w.leader.board.Received(from.agent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{}}})
	}
}

// record plays the part of the controller of Agents: it stores which process is linked, once its cache has the Agent, and reports it to
// the board.
func (w *wire) record(name string) {
	view := w.leader.board.Agent(named(name))
	if !w.leader.leads() || !slices.Contains(w.leader.world.seen(), name) {
		return
	}
	if view.ProcessToRecord.PodUID != "" {
		w.leader.world.link(name, view.ProcessToRecord)
	}
	w.leader.enrol(name)
}

// arrive records a connection; false if a later one of the same process has arrived before.
func (w *wire) arrive(hello *linkv1.Hello) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if hello.GetConnection() <= w.latest[hello.GetProcess()] && !w.leader.world.without.connectionNumbers {
		return false
	}
	w.latest[hello.GetProcess()] = max(w.latest[hello.GetProcess()], hello.GetConnection())
	return true
}

// end handles the end of a stream.
func (w *wire) end(gone *session) {
	defer w.turn(gone.agent)()
	w.mu.Lock()
	linked := w.sessions[gone.agent] == gone
	w.mu.Unlock()
	if linked {
		w.leave(gone)
	}
}

func (w *wire) endOf(gone *stream) {
	w.mu.Lock()
	linked := w.sessions[gone.agent]
	w.mu.Unlock()
	if linked != nil && linked.stream == gone {
		w.end(linked)
	}
}

func (w *wire) endOfAgent(name string) {
	w.mu.Lock()
	linked := w.sessions[link.Agent{Namespace: "default", Name: name}]
	w.mu.Unlock()
	if linked != nil {
		w.end(linked)
	}
}

func (w *wire) leave(gone *session) {
	gone.stream.hangUp()
	w.leader.board.Left(gone.agent)
	w.remove(gone)
}

func (w *wire) remove(gone *session) {
	gone.silence.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sessions, gone.agent)
}

// close is the death of the process: only agents notice it.
func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, linked := range w.sessions {
		linked.silence.Stop()
		linked.stream.hangUp()
	}
	clear(w.sessions)
}
