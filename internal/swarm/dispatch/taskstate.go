package dispatch

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/swarm/schedule"
)

// A Wait is why a task has no agent.
type Wait struct {
	Reason  v1alpha1.Reason
	Message string
}

// StopMode is what should happen to a running attempt.
type StopMode int

// The stops.
const (
	Continue StopMode = iota
	HandBack          // the task should wait
	Cancel            // the task should end
)

// A TaskInput is what only the controller knows about a task.
type TaskInput struct {
	Payload            []byte
	PayloadByReference bool  // the payload may be large and is not kept: MarkStored gets it (see Assignment.Unsent)
	Blocked            *Wait // it cannot be assigned, for this reason
	Stop               StopMode
	WillEnd            bool // it gets a final phase, unless an agent has it
}

// A taskState is an unfinished task.
type taskState struct {
	name         types.NamespacedName
	uid          types.UID
	swarm        types.NamespacedName
	requirements taskRequirements
	size         int64 // as it counts against the budget of its namespace
	created      time.Time
	version      string // the latest resource version known
	epoch        int64  // the latest assigned, stored or not
	attempt      int32  // likewise
	storedEpoch  int64  // the latest epoch that is stored
	input        TaskInput
	observed     bool // Observe was called for it

	assignment   *assignment
	end          *AttemptEnd
	reportedEnd  *AttemptEnd // what the controller received last: only that can be stored
	wait         Wait
	waitingSince time.Time // since when
	notBefore    time.Time
	nextRetry    time.Time // as stored, when notBefore was computed
	lastWrite    time.Time // when the status was last written
}

// taskRequirements is what the dispatcher needs of a task's spec. Nothing else of the spec is kept: lists of items and payloads may be
// large.
type taskRequirements struct {
	priority        v1alpha1.TaskPriority
	agentType       string
	capabilities    []string
	runSeconds      int32 // 0: no limit
	progressSeconds int32 // seconds, 0: no limit
}

func requirementsOf(task *v1alpha1.Task) taskRequirements {
	spec := &task.Spec
	requirements := taskRequirements{priority: spec.Priority, agentType: spec.AgentType, capabilities: spec.Capabilities}
	if limits := spec.Timeouts; limits != nil {
		requirements.runSeconds, requirements.progressSeconds = limits.RunSeconds, limits.HeartbeatSeconds
	}
	return requirements
}

// An assignment is an attempt that an agent holds.
type assignment struct {
	agent     *agentState
	process   Process // that has it; the zero value if that is not stored
	restored  bool    // from what a former leader stored; no process has named it to this leader
	attempt   int32
	epoch     int64
	since     time.Time
	first     bool // the task's first: it may be sent before it is written
	sent      bool
	sentStop  StopMode  // the last stop sent to the agent
	expiresAt time.Time // zero while the agent is linked
	progress  int32
	message   string
	// storedLease is stored with the assignment, or is being stored; 0 before. If the Agent object is deleted, the next leader uses it.
	storedLease time.Duration
}

// An AttemptEnd is how an attempt ended, until it is stored.
type AttemptEnd struct {
	Agent           string
	Attempt         int32
	Epoch           int64
	Since           time.Time
	Lost            bool // the result is unknown; the attempt is certainly over
	Undelivered     bool // the agent never had it
	Outcome         linkv1.Outcome
	Value           []byte
	Reason, Message string

	sender link.Agent
}

// Assignment is an attempt that an agent has, or will have once it is written.
type Assignment struct {
	Agent    string
	Process  Process       // the zero value if it is not known
	Lease    time.Duration // the longest that the agent may use
	Attempt  int32
	Epoch    int64
	Since    time.Time
	First    bool // the write may wait
	Unsent   bool // MarkStored sends it, once it is stored
	Stopping bool
	Progress int32
	Message  string
}

// A TaskView is a task as the dispatcher sees it, to be written. At most one of the pointers is set.
type TaskView struct {
	Stale         bool      // the object is older than one already seen: call again with the newer one
	DeferredUntil time.Time // write nothing before, unless the dispatcher requests a reconcile earlier: agents have not reported what they run
	Assignment    *Assignment
	End           *AttemptEnd
	Wait          *Wait
	WaitingSince  time.Time // of the wait
	LastWrite     time.Time // when the status was last written by this leader
}

func (s *taskState) view() TaskView {
	view := TaskView{LastWrite: s.lastWrite}
	switch {
	case s.end != nil:
		end := *s.end
		view.End = &end
	case s.assignment != nil:
		view.Assignment = &Assignment{
			Agent: s.assignment.agent.name.Name, Process: s.assignment.process, Attempt: s.assignment.attempt, Epoch: s.assignment.epoch,
			Since: s.assignment.since,
			First: s.assignment.first, Unsent: !s.assignment.sent, Stopping: s.assignment.sentStop != Continue, Progress: s.assignment.progress,
			Message: s.assignment.message,
		}
	default:
		wait := s.wait
		if s.input.Blocked != nil {
			wait = *s.input.Blocked
		}
		view.Wait, view.WaitingSince = &wait, s.waitingSince
	}
	return view
}

// update records a newer version of the object.
func (s *taskState) update(task *v1alpha1.Task) {
	s.version, s.requirements, s.storedEpoch = task.ResourceVersion, requirementsOf(task), task.Status.Epoch
	s.epoch, s.attempt = max(s.epoch, task.Status.Epoch), max(s.attempt, task.Status.Attempt)
	if next := task.Status.NextRetryTime; next != nil && !next.Time.Equal(s.nextRetry) {
		s.nextRetry, s.notBefore = next.Time, retryTimeOf(task, time.Now())
	}
}

// knowsNewer reports whether an object is older than the known version.
func (s *taskState) knowsNewer(task *v1alpha1.Task) bool {
	order, err := resourceversion.CompareResourceVersion(task.ResourceVersion, s.version)
	return err == nil && order < 0
}

// needsAgent reports whether the task needs an agent.
func (s *taskState) needsAgent() bool {
	ending := s.input.WillEnd && s.neverAssigned() // it is too late for a first attempt
	return s.assignment == nil && s.end == nil && s.observed && s.input.Blocked == nil && s.input.Stop == Continue && !ending
}

// neverAssigned reports whether the task was never assigned, as far as is known.
func (s *taskState) neverAssigned() bool { return s.epoch == 0 }

// schedulerTask returns the task as the engine sees it.
func (s *taskState) schedulerTask() schedule.Task {
	return schedule.Task{
		ID: string(s.uid), Priority: priorityClasses[s.requirements.priority], Created: s.created.UnixNano(),
		Type: s.requirements.agentType, Capabilities: s.requirements.capabilities,
	}
}

var priorityClasses = map[v1alpha1.TaskPriority]schedule.Priority{
	v1alpha1.PriorityLow: schedule.Low, v1alpha1.PriorityMedium: schedule.Medium, "": schedule.Medium,
	v1alpha1.PriorityHigh: schedule.High, v1alpha1.PriorityCritical: schedule.Critical,
}
