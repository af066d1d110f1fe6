package spread

import (
	"cmp"
	"time"
)

// Phase is how far a pod has come.
type Phase int

// The phases of a pod.
const (
	// Pending has no node yet.
	Pending Phase = iota
	// Starting has a node and is not Ready.
	Starting
	// Ready serves.
	Ready
	// Terminating is on its way out: it holds no number and counts for nothing.
	Terminating
)

const (
	// Unnumbered is the number of a pod that was made without admission.
	Unnumbered = -1
	// MostReplicas is how large a workload can be, and its numbers are below: what a decision needs grows with both.
	MostReplicas = 100_000
)

// Pod is a replica of the workload.
type Pod struct {
	Name    string
	Number  int    // its ordinal or virtual number, or Unnumbered
	Set     string // the ReplicaSet among whose pods it has that number, "" of a StatefulSet
	Made    Class  // what admission made it for, "" when it did not
	Node    Class  // of its node, "" while Pending
	Phase   Phase
	Created time.Time
	Gated   bool      // nobody looks for a node yet
	Since   time.Time // when somebody began to, zero: when it was made
	Doomed  bool      // its node is going away
	Lost    bool      // it is gone already, or silent: nobody is served there
	Bound   string    // why it cannot run on another node, "" if it can

	Cordoned bool      // its node is going away only because it is cordoned, which has no deadline
	Noticed  time.Time // when its node was first seen with an interruption notice, zero if unknown
}

// where is the class that a pod counts for.
func (p Pod) where() Class { return cmp.Or(p.Node, p.Made) }

// Supply is what is known of a class.
type Supply struct {
	Nodes    int       // that take pods now
	Static   bool      // nobody makes nodes of it when pods wait: none means no room
	Failed   time.Time // what the last decision gave as Gate.Failed
	Returned time.Time // when a node of it last began to take pods
}

// NoLimit is the allowance of a workload that no disruption budget covers.
const NoLimit = -1

// Budget is how much may be disturbed.
type Budget struct {
	Allowed  int  // the least that its disruption budgets allow now, or NoLimit
	Step     int  // the most replicas that may be away for our sake, at least 1
	Override bool // may delete, which asks no disruption budget
}

// World is all that a decision depends on.
type World struct {
	Policy   *Policy // the last good one, nil for none
	Problem  string  // what is wrong with the present one, "" for nothing
	Replicas int
	Pods     []Pod
	Spot     Supply
	OnDemand Supply
	Budget   Budget
	Hold     string // why Ready pods must not be moved now: a rollout, a closed window; "" for nothing

	Now             time.Time
	LastMove        time.Time // zero for none that is known
	Cooldown        time.Duration
	PendingDeadline time.Duration
	Retry           time.Duration // how long a class that had no room is left alone; 0 is ten times PendingDeadline
}

func (w World) supply(class Class) Supply {
	if class == Spot {
		return w.Spot
	}
	return w.OnDemand
}

// deadline is when a Pending pod has waited long enough.
func (w World) deadline(pod Pod) time.Time {
	return later(pod.Created, pod.Since).Add(w.PendingDeadline)
}

// overdue tells whether a pod waits in vain for a node.
func (w World) overdue(pod Pod) bool {
	return pod.Phase == Pending && !pod.Gated && (w.empty(pod.Made) || !w.Now.Before(w.deadline(pod)))
}

// grain is how exactly Kubernetes says when a pod was made: in whole seconds, rounded down.
const grain = time.Second

// arrival is how long a pod has just come, at the most: notices may be as short as half a minute.
const arrival = 10 * time.Second

// urgency is how long after an interruption notice its deadline counts as near: notices may be as short as half a minute.
const urgency = 15 * time.Second

// urgent is when the deadline of a pod's node counts as near.
func (p Pod) urgent() time.Time { return p.Noticed.Add(urgency) }

// settled is when a pod has come a while ago.
func (w World) settled(pod Pod) time.Time { return pod.Created.Add(min(w.Cooldown, arrival) + grain) }

// fresh tells whether a pod has only just come.
func (w World) fresh(pod Pod) bool { return w.Now.Before(w.settled(pod)) }

// empty tells whether it is sure that a class has no room.
func (w World) empty(class Class) bool {
	supply := w.supply(class)
	return class != "" && supply.Static && supply.Nodes == 0
}

func (w World) retry() time.Duration { return cmp.Or(w.Retry, 10*w.PendingDeadline) }

// Verb is how a pod is moved.
type Verb string

// The verbs.
const (
	// Evict asks the disruption budgets.
	Evict Verb = "evict"
	// Delete does not: for pods that never ran, and where the workload asks for it.
	Delete Verb = "delete"
)

// Move is a pod to be taken away, so that its replacement comes up elsewhere.
type Move struct {
	Pod      string
	Number   int // which it stands for
	Verb     Verb
	From, To Class
	Reason   string
}

// Word is the state of a workload in a word.
type Word string

// The words of the status annotation.
const (
	Balanced        Word = "Balanced"
	Rebalancing     Word = "Rebalancing"
	SpotUnavailable Word = "SpotUnavailable"
	BlockedByPDB    Word = "BlockedByPDB"
	Invalid         Word = "Invalid"
)

// Decision is what to do now, and what to say about it.
type Decision struct {
	Moves    []Move
	Shortage Shortage // where admission puts pods until the next decision
	Desired  Distribution
	Current  Distribution // pods that have a node
	Word     Word         // "" when there is no policy and no problem
	Reason   string
	Bound    string    // which pods cannot go where they belong, and why; "" for none
	Again    time.Time // when to decide again though nothing happens, zero for never
	problem  string
}

// Status is the text of the status annotation.
func (d Decision) Status() string {
	if d.Word == Invalid {
		return string(Invalid) + ": " + d.problem
	}
	return string(d.Word)
}
