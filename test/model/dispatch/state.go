// Package dispatch models how a task gets from its Task object to an agent and back, over leader changes, lost messages and
// replaced pods. docs/explanation/link.md describes the protocol; docs/explanation/model.md explains how to read this package.
//
// The model has one task; two agents, a and b, of which a may get a second process; two replicas of the operator that compete for
// the Lease; and an API server that all of them reach through caches that lag and writes that arrive late.
//
// Time is counted in ticks. Everything that can happen between two ticks takes no time and may happen in any order, but a tick does
// not pass while a program runs past its agent's lease. So a lease that was counted from an earlier moment ends at an earlier
// tick, and one tick of margin covers what a process needs to notice the end of its lease.
package dispatch

import "github.com/swarm-io/swarm-operator/test/invariant"

// Durations, in ticks. What matters is their order: the renew deadline is below the Lease's duration, and the renew deadline is above
// the margin, so that a former leader that still speaks is not covered by the margin alone.
const (
	margin        = 1 // what the operator adds to an agent's lease
	renewDeadline = 2 // how long a leader acts after its last renewal
	leaseDuration = 3 // how long others wait for a leader that does not renew
)

const (
	replicas  = 2
	processes = 3 // a's process, b's process, and a second one of a; the pods in which they start have the same numbers
)

// An epoch is term << 4 | sequence.
type epoch uint8

func epochOf(term, sequence uint8) epoch { return epoch(term<<4 | sequence) }

func (e epoch) term() uint8 { return uint8(e >> 4) }

// Outcomes of an attempt.
const (
	succeeded uint8 = iota + 1
	failed
	handedBack // stopped by the agent, or never started: costs nothing
	lost       // given up by the operator: costs a reassignment
)

// Phases of a task.
const (
	pending uint8 = iota
	completed
	exhausted // the phase Failed: no retries are left
	cancelled
)

// A taskObject is the Task as stored, or as cached. Version 0: the cache does not contain it yet.
type taskObject struct {
	version, phase         uint8
	epoch                  epoch
	owner                  uint8 // process that has it, plus 1
	lease                  uint8 // the longest lease of the process when it was assigned
	retries, reassignments uint8
	cancel                 bool // the user wants it to end
}

func (t taskObject) isFinal() bool { return t.phase != pending }

// isRecorded reports whether the object records how the attempt ended.
func (t taskObject) isRecorded(e epoch) bool {
	return t.epoch > e || t.epoch == e && t.owner == 0
}

// Kinds of messages.
const (
	noMessage uint8 = iota
	hello
	heldHello // a Hello that was welcomed, but not processed by the leader
	confirm   // a Welcome was received
	heartbeat
	result
	goodbye
	welcome
	echo
	assign
	cancel
	acknowledge
)

// A message is in transit between an agent and a replica.
type message struct {
	kind    uint8
	epoch   epoch // of the attempt; in a Hello: of the one that runs
	ended   epoch // Hello: of the unacknowledged result
	outcome uint8
	age     uint8 // ticks since the agent sent this Hello or heartbeat, or the one that this answers
	lease   uint8 // Hello: the last lease that the agent received. Welcome, echo: the new one
	partial bool  // Hello: a result was omitted. Result: it ends a partial Hello
}

// A connection carries messages in order. Connections of one process are independent of each other.
type connection struct {
	number    uint8 // of the process, from 1
	replica   uint8 // plus 1; 0: it is closed
	broken    bool  // the replica has ended; messages that it sent before may still arrive
	toReplica [2]message
	toAgent   [2]message
}

// A process is an agent's process in its container.
type process struct {
	alive, suspended bool
	pod              uint8
	lease            uint8 // ticks until the lease ends
	receivedLease    uint8 // the length of the last lease it received; 0: none
	running          epoch // 0: nothing
	ended            epoch // of an unacknowledged result
	outcome          uint8
	current          connection
	former           connection // abandoned by the agent, but its bytes may still arrive
}

// States of the task in a leader's memory.
const (
	unknown uint8 = iota
	waiting
	reserved // an assignment is being written and was not sent yet
	assigned // an assignment was sent
	ended    // an attempt has ended, which is not stored yet
	finished
)

// A taskState is a leader's memory of the task.
type taskState struct {
	state   uint8
	epoch   epoch
	owner   uint8 // process
	outcome uint8
	written bool // the assignment is stored
}

// A link is what a leader knows about a process.
type link struct {
	connection uint8 // the number of the newest connection; 0: none was seen
	open       bool
	partial    bool  // its Hello is not complete, or not confirmed, so it gets no work
	timer      uint8 // ticks until the process is certain to be past its lease
	sentLease  uint8 // the lease that was sent on the newest connection
}

// A cache is a replica's view of the API server.
type cache struct {
	task   taskObject
	pods   uint8    // existing pods, as bits
	linked [2]uint8 // Agent status: linked process, plus 1
}

// A write is a request in flight to the API server.
type write struct {
	active  bool
	term    uint8 // in which it was sent
	base    uint8 // resourceVersion
	task    taskObject
	records epoch // the attempt whose end it records, if any
	outcome uint8
}

// A replica is an instance of the operator.
type replica struct {
	leading, termOpened bool
	term, sequence      uint8
	renewalTicks        uint8            // ticks until the renew deadline
	waitBeforeOpening   uint8            // ticks until it may open its term, because a former leader may still speak
	disowned            bool             // the next process of its pod must not take over its Lease
	longerLeaseTicks    uint8            // ticks until leases of a former leader, which were longer, have run out
	gates               [processes]uint8 // of each process whose Hello is missing: ticks until it can run nothing
	anyProcess          uint8            // gates that any process of the pod opens, as bits
	memory              taskState
	links               [processes]link
	cache               cache
	write               write
}

// A lease is the operator's Lease.
type lease struct {
	holder    uint8 // replica plus 1; 0: none
	term      uint8 // its transitions
	ticksLeft uint8 // ticks until others may take it

	disowned bool // the next process of the holder's pod has to wait like the others
}

// A store is the content of the API server.
type store struct {
	task       taskObject
	lease      lease
	termFloor  uint8    // the highest term of a leader, kept outside of the Lease
	pods       uint8    // existing pods, as bits
	linked     [2]uint8 // Agent status: linked process, plus 1
	leases     [2]uint8 // Agent status: no longer lease is in force; 0: unknown
	terminated uint8    // processes whose container status proves their end, as bits
}

// A journal records what really happened, for the invariants. The protocol does not read it.
type journal struct {
	history   invariant.History[epoch]
	failures  uint16 // attempts whose failure is stored, as bits
	losses    uint16 // attempts whose loss is stored, as bits
	final     bool   // a leader stored a final phase
	lateWrite bool   // a write of a former leader was stored
	violation Invariant
}

// Faults holds how often each fault may happen, or may still happen.
type Faults struct {
	ProcessEnds     uint8 // the process of an agent ends, and its container status records it
	AgentDeletions  uint8 // agent a's object is deleted, and recreated
	PodReplacements uint8 // agent a's pod is deleted by force and replaced, while its process lives on
	SecondProcesses uint8 // another process of agent a starts in a's pod, while the first one lives on
	LeaderCrashes   uint8 // a leader ends, and others wait for its Lease to expire
	LeaderReleases  uint8 // a leader ends in order, and others may take its Lease at once
	LeaseDeletions  uint8 // the Lease is deleted while its holder leads
	Outages         uint8 // a tick passes without a renewal of the Lease
	LostAnswers     uint8 // a write is stored, and its answer is lost
	Suspensions     uint8 // a process, and its program, stand still
	PartialHellos   uint8 // a Hello has no room for a result
	Failures        uint8 // a program fails
	Goodbyes        uint8 // an agent ends in order
	Cancels         uint8 // the user cancels the task
}

type state struct {
	processes       [processes]process
	replicas        [replicas]replica
	store           store
	journal         journal
	remainingFaults Faults
}

func agentOf(process uint8) uint8 { return process % 2 } // 0 and 2 are processes of agent a

func bit(n uint8) uint8 { return 1 << n }

func epochBit(e epoch) uint16 { return 1 << ((uint8(e>>4)-1)%4*4 + uint8(e)&3) }

// push appends a message to a queue and reports whether there was room.
func push(queue *[2]message, m message) bool {
	for n := range queue {
		if queue[n].kind == noMessage {
			queue[n] = m
			return true
		}
	}
	return false
}

func pop(queue *[2]message) message {
	first := queue[0]
	queue[0], queue[1] = queue[1], message{}
	return first
}

func contains(queue *[2]message, kind uint8) bool {
	return queue[0].kind == kind || queue[1].kind == kind
}
