package split

import (
	"cmp"
	"time"
)

// Phase is the progress of a pod.
type Phase int

// The phases of a pod.
const (
	// Pending has no node yet.
	Pending Phase = iota
	// Starting has a node and is not Ready.
	Starting
	// Ready serves.
	Ready
	// Terminating is being deleted: it holds no number and is not counted.
	Terminating
)

const (
	// Unnumbered is the number of a pod created without admission.
	Unnumbered = -1
	// MaxReplicas limits the replicas of a workload and their numbers: the cost of a decision grows with both.
	MaxReplicas = 100_000
)

// Pod is a replica of the workload.
type Pod struct {
	Name             string
	Number           int    // its ordinal or virtual number, or Unnumbered
	TemplateHash     string // the ReplicaSet that the number belongs to, "" for a StatefulSet
	AssignedClass    Class  // the class that admission chose, "" when it did not
	NodeClass        Class  // of its node, "" while Pending
	Phase            Phase
	Created          time.Time
	Gated            bool      // has scheduling gates, so it is not scheduled yet
	SchedulableSince time.Time // when scheduling began, zero: when the pod was created
	NodeTerminating  bool      // its node is going away
	NodeDown         bool      // its node is gone or not Ready, so the pod does not serve
	ImmovableReason  string    // why it cannot run on another node, "" if it can

	Cordoned      bool      // its node is going away only because it is cordoned, which has no deadline
	InterruptedAt time.Time // when its node was first seen with an interruption notice, zero if unknown
}

// class returns the class that a pod counts for.
func (p Pod) class() Class { return cmp.Or(p.NodeClass, p.AssignedClass) }

// Capacity is the known capacity of a class.
type Capacity struct {
	Nodes           int       // that accept pods now
	Static          bool      // no provisioner adds nodes for Pending pods: none means no room
	NoCapacitySince time.Time // ClassState.NoCapacitySince of the last decision
	NodeAvailableAt time.Time // when a node of it last began to accept pods
}

// NoLimit is the allowance of a workload without a disruption budget.
const NoLimit = -1

// Budget is how much may be disrupted.
type Budget struct {
	Allowed  int  // the lowest that its disruption budgets allow now, or NoLimit
	Step     int  // the most replicas that we may take away at once, at least 1
	Override bool // may delete, which bypasses disruption budgets
}

// Snapshot is the complete input of a decision.
type Snapshot struct {
	Policy   *Policy // the last valid one, nil for none
	Problem  string  // what is wrong with the current one, "" for nothing
	Replicas int
	Pods     []Pod
	Spot     Capacity
	OnDemand Capacity
	Budget   Budget
	Hold     string // why Ready pods must not be moved now: a rollout, a closed window; "" for nothing

	Now             time.Time
	LastMove        time.Time // zero if unknown
	Cooldown        time.Duration
	PendingDeadline time.Duration
	Retry           time.Duration // how long a class that had no room gets no pods; 0 means ten times PendingDeadline
}

func (s Snapshot) capacity(class Class) Capacity {
	if class == Spot {
		return s.Spot
	}
	return s.OnDemand
}

// deadline returns when a Pending pod has waited long enough.
func (s Snapshot) deadline(pod Pod) time.Time {
	return later(pod.Created, pod.SchedulableSince).Add(s.PendingDeadline)
}

// isOverdue reports whether a pod has waited too long for a node.
func (s Snapshot) isOverdue(pod Pod) bool {
	return pod.Phase == Pending && !pod.Gated && (s.lacksCapacity(pod.AssignedClass) || !s.Now.Before(s.deadline(pod)))
}

// timestampResolution is the resolution of creation timestamps in Kubernetes: whole seconds, rounded down.
const timestampResolution = time.Second

// maxNewPodAge caps how long a pod counts as new; interruption notices can be as short as 30 seconds.
const maxNewPodAge = 10 * time.Second

// urgentAfter is how long after an interruption notice its deadline counts as near; notices can be as short as 30 seconds.
const urgentAfter = 15 * time.Second

// urgentAt returns when the deadline of a pod's node counts as near.
func (p Pod) urgentAt() time.Time { return p.InterruptedAt.Add(urgentAfter) }

// newUntil returns when a pod no longer counts as new.
func (s Snapshot) newUntil(pod Pod) time.Time {
	return pod.Created.Add(min(s.Cooldown, maxNewPodAge) + timestampResolution)
}

// isNew reports whether a pod has only just come.
func (s Snapshot) isNew(pod Pod) bool { return s.Now.Before(s.newUntil(pod)) }

// lacksCapacity reports whether a class certainly has no room.
func (s Snapshot) lacksCapacity(class Class) bool {
	supply := s.capacity(class)
	return class != "" && supply.Static && supply.Nodes == 0
}

func (s Snapshot) retryPeriod() time.Duration { return cmp.Or(s.Retry, 10*s.PendingDeadline) }

// Verb is how a pod is moved.
type Verb string

// The verbs.
const (
	// Evict respects disruption budgets.
	Evict Verb = "evict"
	// Delete does not: for pods that never ran, and where the workload asks for it.
	Delete Verb = "delete"
)

// Move is a pod to remove, so that its replacement comes up elsewhere.
type Move struct {
	Pod      string
	Number   int // the number it stands for
	Verb     Verb
	From, To Class
	Reason   string
}

// Status is the state of a workload in one word.
type Status string

// The words of the status annotation.
const (
	Balanced        Status = "Balanced"
	Rebalancing     Status = "Rebalancing"
	SpotUnavailable Status = "SpotUnavailable"
	BlockedByPDB    Status = "BlockedByPDB"
	Invalid         Status = "Invalid"
)

// Decision is what to do now, and what to report about it.
type Decision struct {
	Moves         []Move
	Classes       ClassStates // where admission puts pods until the next decision
	Desired       Distribution
	Current       Distribution // pods that have a node
	Status        Status       // "" when there is no policy and no problem
	Reason        string
	ImmovablePods string    // which pods cannot go where they belong, and why; "" for none
	RecheckAt     time.Time // when to decide again without a change, zero for never
	problem       string
}

// StatusText returns the value of the status annotation.
func (d Decision) StatusText() string {
	if d.Status == Invalid {
		return string(Invalid) + ": " + d.problem
	}
	return string(d.Status)
}
