package spread

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
	// MostReplicas limits the replicas of a workload and their numbers: the cost of a decision grows with both.
	MostReplicas = 100_000
)

// Pod is a replica of the workload.
type Pod struct {
	Name    string
	Number  int    // its ordinal or virtual number, or Unnumbered
	Set     string // the ReplicaSet that the number belongs to, "" for a StatefulSet
	Made    Class  // the class that admission chose, "" when it did not
	Node    Class  // of its node, "" while Pending
	Phase   Phase
	Created time.Time
	Gated   bool      // has scheduling gates, so it is not scheduled yet
	Since   time.Time // when scheduling began, zero: when the pod was created
	Doomed  bool      // its node is going away
	Lost    bool      // its node is gone or not Ready, so the pod does not serve
	Bound   string    // why it cannot run on another node, "" if it can

	Cordoned bool      // its node is going away only because it is cordoned, which has no deadline
	Noticed  time.Time // when its node was first seen with an interruption notice, zero if unknown
}

// where returns the class that a pod counts for.
func (p Pod) where() Class { return cmp.Or(p.Node, p.Made) }

// Supply is the known capacity of a class.
type Supply struct {
	Nodes    int       // that accept pods now
	Static   bool      // no provisioner adds nodes for Pending pods: none means no room
	Failed   time.Time // Gate.Failed of the last decision
	Returned time.Time // when a node of it last began to accept pods
}

// NoLimit is the allowance of a workload without a disruption budget.
const NoLimit = -1

// Budget is how much may be disrupted.
type Budget struct {
	Allowed  int  // the lowest that its disruption budgets allow now, or NoLimit
	Step     int  // the most replicas that we may take away at once, at least 1
	Override bool // may delete, which bypasses disruption budgets
}

// World is the complete input of a decision.
type World struct {
	Policy   *Policy // the last valid one, nil for none
	Problem  string  // what is wrong with the current one, "" for nothing
	Replicas int
	Pods     []Pod
	Spot     Supply
	OnDemand Supply
	Budget   Budget
	Hold     string // why Ready pods must not be moved now: a rollout, a closed window; "" for nothing

	Now             time.Time
	LastMove        time.Time // zero if unknown
	Cooldown        time.Duration
	PendingDeadline time.Duration
	Retry           time.Duration // how long a class that had no room gets no pods; 0 means ten times PendingDeadline
}

func (w World) supply(class Class) Supply {
	if class == Spot {
		return w.Spot
	}
	return w.OnDemand
}

// deadline returns when a Pending pod has waited long enough.
func (w World) deadline(pod Pod) time.Time {
	return later(pod.Created, pod.Since).Add(w.PendingDeadline)
}

// overdue reports whether a pod has waited too long for a node.
func (w World) overdue(pod Pod) bool {
	return pod.Phase == Pending && !pod.Gated && (w.empty(pod.Made) || !w.Now.Before(w.deadline(pod)))
}

// grain is the resolution of creation timestamps in Kubernetes: whole seconds, rounded down.
const grain = time.Second

// arrival caps how long a pod counts as new; interruption notices can be as short as 30 seconds.
const arrival = 10 * time.Second

// urgency is how long after an interruption notice its deadline counts as near; notices can be as short as 30 seconds.
const urgency = 15 * time.Second

// urgent returns when the deadline of a pod's node counts as near.
func (p Pod) urgent() time.Time { return p.Noticed.Add(urgency) }

// settled returns when a pod no longer counts as new.
func (w World) settled(pod Pod) time.Time { return pod.Created.Add(min(w.Cooldown, arrival) + grain) }

// fresh reports whether a pod has only just come.
func (w World) fresh(pod Pod) bool { return w.Now.Before(w.settled(pod)) }

// empty reports whether a class certainly has no room.
func (w World) empty(class Class) bool {
	supply := w.supply(class)
	return class != "" && supply.Static && supply.Nodes == 0
}

func (w World) retry() time.Duration { return cmp.Or(w.Retry, 10*w.PendingDeadline) }

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

// Word is the state of a workload in one word.
type Word string

// The words of the status annotation.
const (
	Balanced        Word = "Balanced"
	Rebalancing     Word = "Rebalancing"
	SpotUnavailable Word = "SpotUnavailable"
	BlockedByPDB    Word = "BlockedByPDB"
	Invalid         Word = "Invalid"
)

// Decision is what to do now, and what to report about it.
type Decision struct {
	Moves    []Move
	Shortage Shortage // where admission puts pods until the next decision
	Desired  Distribution
	Current  Distribution // pods that have a node
	Word     Word         // "" when there is no policy and no problem
	Reason   string
	Bound    string    // which pods cannot go where they belong, and why; "" for none
	Again    time.Time // when to decide again without a change, zero for never
	problem  string
}

// Status returns the value of the status annotation.
func (d Decision) Status() string {
	if d.Word == Invalid {
		return string(Invalid) + ": " + d.problem
	}
	return string(d.Word)
}
