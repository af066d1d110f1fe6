package dispatch

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/schedule"
)

// A Wait is why a task has no agent.
type Wait struct {
	Reason  v1alpha1.Reason
	Message string
}

// Stop is what should happen to a running attempt.
type Stop int

// The stops.
const (
	GoOn     Stop = iota
	HandBack      // the task should wait
	Cancel        // the task should end
)

// A Brief is what only the controller knows about a task.
type Brief struct {
	Payload  []byte
	Referred bool  // the payload may be large and is not kept: Settle gets it when the assignment is stored (see Held.Unsent)
	Blocked  *Wait // it cannot be assigned, for this reason
	Stop     Stop
	Ends     bool // it gets a final phase, unless an agent has it
}

// An entry is an unfinished task.
type entry struct {
	name    types.NamespacedName
	uid     types.UID
	swarm   types.NamespacedName
	wants   wants
	size    int64 // as it counts against the budget of its namespace
	created time.Time
	version string // the latest resource version known
	epoch   int64  // the latest assigned, stored or not
	attempt int32  // likewise
	stored  int64  // the latest epoch that is stored
	brief   Brief
	briefed bool // Observe was called for it

	held      *hold
	ended     *End
	told      *End // what the controller received last: only that can be stored
	wait      Wait
	waiting   time.Time // since when
	notBefore time.Time
	nextRetry time.Time // as stored, when notBefore was computed
	wrote     time.Time // when the status was last written
}

// wants is what the board needs of a task's spec. Nothing else of the spec is kept: lists of items and payloads may be large.
type wants struct {
	priority     v1alpha1.TaskPriority
	agentType    string
	capabilities []string
	runSeconds   int32 // 0: no limit
	heartbeat    int32 // seconds, 0: no limit
}

func wantsOf(task *v1alpha1.Task) wants {
	spec := &task.Spec
	made := wants{priority: spec.Priority, agentType: spec.AgentType, capabilities: spec.Capabilities}
	if limits := spec.Timeouts; limits != nil {
		made.runSeconds, made.heartbeat = limits.RunSeconds, limits.HeartbeatSeconds
	}
	return made
}

// A hold is an attempt that an agent holds.
type hold struct {
	agent    *agent
	process  Process // that has it; the zero value if that is not stored
	restored bool    // from what a former leader stored; no process has named it to this leader
	attempt  int32
	epoch    int64
	since    time.Time
	first    bool // the task's first: it may be sent before it is written
	sent     bool
	stopped  Stop      // the last stop sent to the agent
	expires  time.Time // zero while the agent is linked
	progress int32
	message  string
	// lease is stored with the assignment, or is being stored; 0 before. If the Agent object is deleted, the next leader uses it.
	lease time.Duration
}

// An End is how an attempt ended, until it is stored.
type End struct {
	Agent           string
	Attempt         int32
	Epoch           int64
	Since           time.Time
	Lost            bool // the result is unknown; the attempt is certainly over
	Undelivered     bool // the agent never had it
	Outcome         linkv1.Outcome
	Value           []byte
	Reason, Message string

	from link.Agent
}

// Held is an attempt that an agent has, or will have once it is written.
type Held struct {
	Agent    string
	Process  Process       // the zero value if it is not known
	Lease    time.Duration // the longest that the agent may use
	Attempt  int32
	Epoch    int64
	Since    time.Time
	First    bool // the write may wait
	Unsent   bool // Settle sends it, once it is stored
	Stopping bool
	Progress int32
	Message  string
}

// A View is a task as the board sees it, to be written. At most one of the pointers is set.
type View struct {
	Stale    bool      // the object is older than one already seen: call again with the newer one
	HeldBack time.Time // write nothing before, unless the board requests a reconcile earlier: agents have not reported what they run
	Held     *Held
	Ended    *End
	Wait     *Wait
	Since    time.Time // of the wait
	Wrote    time.Time // when the status was last written by this leader
}

func (e *entry) view() View {
	view := View{Wrote: e.wrote}
	switch {
	case e.ended != nil:
		ended := *e.ended
		view.Ended = &ended
	case e.held != nil:
		view.Held = &Held{
			Agent: e.held.agent.name.Name, Process: e.held.process, Attempt: e.held.attempt, Epoch: e.held.epoch, Since: e.held.since,
			First: e.held.first, Unsent: !e.held.sent, Stopping: e.held.stopped != GoOn, Progress: e.held.progress, Message: e.held.message,
		}
	default:
		wait := e.wait
		if e.brief.Blocked != nil {
			wait = *e.brief.Blocked
		}
		view.Wait, view.Since = &wait, e.waiting
	}
	return view
}

// learn records a newer version of the object.
func (e *entry) learn(task *v1alpha1.Task) {
	e.version, e.wants, e.stored = task.ResourceVersion, wantsOf(task), task.Status.Epoch
	e.epoch, e.attempt = max(e.epoch, task.Status.Epoch), max(e.attempt, task.Status.Attempt)
	if next := task.Status.NextRetryTime; next != nil && !next.Time.Equal(e.nextRetry) {
		e.nextRetry, e.notBefore = next.Time, pausedUntil(task, time.Now())
	}
}

// older reports whether an object is older than the known version.
func (e *entry) older(task *v1alpha1.Task) bool {
	order, err := resourceversion.CompareResourceVersion(task.ResourceVersion, e.version)
	return err == nil && order < 0
}

// waits reports whether the task needs an agent.
func (e *entry) waits() bool {
	ending := e.brief.Ends && e.fresh() // it is too late for a first attempt
	return e.held == nil && e.ended == nil && e.briefed && e.brief.Blocked == nil && e.brief.Stop == GoOn && !ending
}

// fresh reports whether the task was never assigned, as far as is known.
func (e *entry) fresh() bool { return e.epoch == 0 }

// demand returns the task as the engine sees it.
func (e *entry) demand() schedule.Task {
	return schedule.Task{
		ID: string(e.uid), Class: classes[e.wants.priority], Created: e.created.UnixNano(),
		Type: e.wants.agentType, Needs: e.wants.capabilities,
	}
}

var classes = map[v1alpha1.TaskPriority]schedule.Class{
	v1alpha1.PriorityLow: schedule.Low, v1alpha1.PriorityMedium: schedule.Medium, "": schedule.Medium,
	v1alpha1.PriorityHigh: schedule.High, v1alpha1.PriorityCritical: schedule.Critical,
}
