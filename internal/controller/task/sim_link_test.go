package task

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// A linkServer is the operator's end of the link, by the rules of package link: one session per agent, credit, echoes only while leading,
// and the end of a session after two leases of silence.
type linkServer struct {
	leader *leader

	mu              sync.Mutex
	sessions        map[link.Agent]*session
	lastHeard       map[link.Agent]time.Time
	eventLocks      map[link.Agent]*sync.Mutex // serializes the events of one agent
	lastConnections map[string]int64           // last connection of each process
}

type session struct {
	agent             link.Agent
	stream            *stream
	term              int64
	granted, assigned int64
	ignored           bool
	silenceTimer      *time.Timer
}

func newLinkServer(l *leader) *linkServer {
	return &linkServer{
		leader: l, sessions: map[link.Agent]*session{}, lastHeard: map[link.Agent]time.Time{}, eventLocks: map[link.Agent]*sync.Mutex{},
		lastConnections: map[string]int64{},
	}
}

// lockEvents locks the events of an agent until the returned function is called.
func (s *linkServer) lockEvents(agent link.Agent) (end func()) {
	s.mu.Lock()
	lock := s.eventLocks[agent]
	if lock == nil {
		lock = &sync.Mutex{}
		s.eventLocks[agent] = lock
	}
	s.mu.Unlock()
	lock.Lock()
	return lock.Unlock
}

// Send implements dispatch.Link.
func (s *linkServer) Send(to link.Agent, message *linkv1.OperatorMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[to]
	switch {
	case session == nil:
		return link.ErrNotLinked
	case !s.leader.isLeader() || session.term != s.leader.Term():
		s.leader.sim.wg.Go(func() { s.endSession(session) })
		return link.ErrNotLeading
	case message.GetAssign() != nil && session.assigned >= session.granted:
		return link.ErrNoCredit
	case message.GetAssign() != nil:
		session.assigned++
		s.leader.sim.attempts.recordAssign(message.GetAssign())
	}
	session.stream.down.push(message)
	return nil
}

// LastHeard implements dispatch.Link.
func (s *linkServer) LastHeard(agent link.Agent) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heard, known := s.lastHeard[agent]
	return heard, known
}

// Disconnect implements dispatch.Link. A stream that is ended in another goroutine receives nothing from now on.
func (s *linkServer) Disconnect(agent link.Agent, unheardSince time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastHeard[agent].After(unheardSince) {
		return false
	}
	if session := s.sessions[agent]; session != nil {
		session.ignored = true
		s.leader.sim.wg.Go(func() { s.endSession(session) })
	}
	return true
}

// receive handles a message of an agent, the first of which is Hello.
func (s *linkServer) receive(stream *stream, message *linkv1.AgentMessage) {
	defer s.lockEvents(stream.agent)()
	if hello := message.GetHello(); hello != nil {
		s.handleHello(stream, hello)
		return
	}
	s.mu.Lock()
	session := s.sessions[stream.agent]
	if session == nil || session.stream != stream || session.ignored {
		s.mu.Unlock()
		return
	}
	if credit := message.GetCredit(); credit != nil {
		session.granted = max(session.granted, credit.GetGranted())
	}
	if message.GetHeartbeat() != nil {
		s.lastHeard[stream.agent] = time.Now()
		session.silenceTimer.Reset(2 * s.leader.sim.lease)
	}
	s.mu.Unlock()
	if beat := message.GetHeartbeat(); beat != nil {
		_ = s.Send(stream.agent, &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Echo{Echo: &linkv1.Echo{Sequence: beat.GetSequence()}}})
	}
	s.leader.dispatcher.Received(stream.agent, message)
}

// handleHello replaces the session of an agent. The caller must hold the agent's turn.
func (s *linkServer) handleHello(stream *stream, hello *linkv1.Hello) {
	if !s.leader.isLeader() || !s.leader.dispatcher.Opened() || !s.acceptConnection(hello) {
		stream.closeByOperator()
		return
	}
	s.mu.Lock()
	before := s.sessions[stream.agent]
	s.mu.Unlock()
	if before != nil {
		s.closeSession(before)
	}
	session := &session{agent: stream.agent, stream: stream, term: s.leader.Term()}
	session.silenceTimer = time.AfterFunc(2*s.leader.sim.lease, func() { s.endSession(session) })
	s.mu.Lock()
	s.sessions[stream.agent], s.lastHeard[stream.agent] = session, time.Now()
	s.mu.Unlock()
	stream.down.push(&linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Welcome{Welcome: &linkv1.Welcome{Term: session.term,
		Lease: durationpb.New(s.leader.sim.lease)}}})
	if s.leader.dispatcher.Joined(stream.agent, stream.podUID, hello) != nil {
		s.removeSession(session)
		stream.down.clear()
		stream.closeByOperator()
		return
	}
	if s.leader.sim.disabledRules.numberedConnections { // a link that accepts any Hello does not wait for the answer to Welcome either
		s.leader.dispatcher.Received(stream.agent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{}}})
	}
}

// reconcileAgent plays the part of the controller of Agents: it stores which process is linked, once its cache has the Agent, and reports
// it to the dispatcher.
func (s *linkServer) reconcileAgent(name string) {
	view := s.leader.dispatcher.Agent(namespacedName(name))
	if !s.leader.isLeader() || !slices.Contains(s.leader.sim.visiblePods(), name) {
		return
	}
	if view.ProcessToRecord.PodUID != "" {
		s.leader.sim.recordLinkedProcess(name, view.ProcessToRecord)
	}
	s.leader.setAgent(name)
}

// acceptConnection records a connection; false if a later one of the same process has arrived before.
func (s *linkServer) acceptConnection(hello *linkv1.Hello) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hello.GetConnection() <= s.lastConnections[hello.GetProcess()] && !s.leader.sim.disabledRules.numberedConnections {
		return false
	}
	s.lastConnections[hello.GetProcess()] = max(s.lastConnections[hello.GetProcess()], hello.GetConnection())
	return true
}

// endSession handles the end of a stream.
func (s *linkServer) endSession(session *session) {
	defer s.lockEvents(session.agent)()
	s.mu.Lock()
	linked := s.sessions[session.agent] == session
	s.mu.Unlock()
	if linked {
		s.closeSession(session)
	}
}

func (s *linkServer) endStream(stream *stream) {
	s.mu.Lock()
	session := s.sessions[stream.agent]
	s.mu.Unlock()
	if session != nil && session.stream == stream {
		s.endSession(session)
	}
}

func (s *linkServer) endSessionOf(name string) {
	s.mu.Lock()
	session := s.sessions[link.Agent{Namespace: "default", Name: name}]
	s.mu.Unlock()
	if session != nil {
		s.endSession(session)
	}
}

func (s *linkServer) closeSession(session *session) {
	session.stream.closeByOperator()
	s.leader.dispatcher.Left(session.agent)
	s.removeSession(session)
}

func (s *linkServer) removeSession(session *session) {
	session.silenceTimer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session.agent)
}

// close ends the process: only agents notice it.
func (s *linkServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		session.silenceTimer.Stop()
		session.stream.closeByOperator()
	}
	clear(s.sessions)
}
