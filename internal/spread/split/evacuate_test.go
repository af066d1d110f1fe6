package split

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// allNodesTerminating returns ten Ready pods, all on nodes that are going away, in a cluster that adds nodes for Pending pods.
func allNodesTerminating(mark func(*Pod)) Snapshot {
	pods := balancedPods()
	for n := range pods {
		pods[n].NodeTerminating = true
		mark(&pods[n])
	}
	w := newSnapshot(policy60, 10, pods)
	w.Spot, w.OnDemand = Capacity{}, Capacity{}
	return w
}

func cordon(pod *Pod) { pod.Cordoned = true }

// interrupted marks pods whose node got an interruption notice some time ago.
func interrupted(ago time.Duration) func(*Pod) {
	return func(pod *Pod) { pod.InterruptedAt = noon.Add(time.Hour - ago) }
}

func TestAllNodesGoAtOnce(t *testing.T) {
	const closed = "the disruption windows are closed until tomorrow"
	for _, c := range []struct {
		reason string
		mark   func(*Pod)
		change func(*Snapshot)
		moves  int
		says   string
		again  time.Duration
	}{
		{"cordoned: one step at a time", cordon, func(*Snapshot) {}, 1, "moving 1 pod", 0},
		{"cordoned: the step counts", cordon, func(w *Snapshot) { w.Budget.Step = 3 }, 3, "moving 3 pods", 0},
		{"cordoned: replacements come first", cordon, func(w *Snapshot) { w.Pods = w.Pods[:9] }, 0, "1 pod of 10 away", 0},
		{"cordoned: the window is closed", cordon, func(w *Snapshot) { w.Hold = closed }, 0, closed, 0},
		{"cordoned: a budget allows less than the step", cordon, func(w *Snapshot) { w.Budget = Budget{Allowed: 2, Step: 5} }, 2, "moving 2 pods",
			0},
		{"cordoned: an override deletes no faster", cordon, func(w *Snapshot) { w.Budget = Budget{Allowed: NoLimit, Step: 2, Override: true} }, 2,
			"moving 2 pods", 0},
		{"cordoned: the nodes are lost", func(pod *Pod) { pod.Cordoned, pod.NodeDown = true, true }, func(w *Snapshot) { w.Hold = closed }, 10,
			"moving 10 pods", 0},
		{"cordoned: a pod that is not Ready disturbs no other", cordon, func(w *Snapshot) { w.Hold, w.Pods[3].Phase = closed, Starting }, 1,
			"moving 1 pod", 0},
		{"noticed: one stays, whatever the window", interrupted(time.Second), func(w *Snapshot) { w.Hold = closed }, 9, "moving 9 pods",
			urgentAfter - time.Second},
		{"noticed: the deadline is near", interrupted(urgentAfter), func(w *Snapshot) { w.Hold = closed }, 10, "moving 10 pods", 0},
		{"noticed: since when is unknown", func(*Pod) {}, func(*Snapshot) {}, 10, "moving 10 pods", 0},
		{"noticed: a budget counts to the end", interrupted(time.Hour), func(w *Snapshot) { w.Budget.Allowed = 4 }, 4, "moving 4 pods", 0},
		{"noticed: the nodes are lost", func(pod *Pod) { interrupted(0)(pod); pod.NodeDown = true }, func(*Snapshot) {}, 10, "moving 10 pods", 0},
		{"noticed: others are Ready elsewhere", interrupted(0), func(w *Snapshot) { w.Pods[0].NodeTerminating = false }, 9, "moving 9 pods", 0},
		{"noticed: the last one that is Ready stays", interrupted(0), func(w *Snapshot) {
			for n := range 9 {
				w.Pods[n].Phase, w.Pods[n].NodeTerminating = Starting, false
			}
		}, 0, reasonLastReadyPod, urgentAfter},
		{"noticed: the only replica goes", interrupted(0), func(w *Snapshot) { w.Replicas, w.Pods = 1, w.Pods[:1] }, 1, "moving 1 pod", 0},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w := allNodesTerminating(c.mark)
			c.change(&w)
			d := Decide(w)
			if len(d.Moves) != c.moves || !strings.Contains(d.Reason, c.says) {
				t.Errorf("%d moves, %q; want %d, %q", len(d.Moves), d.Reason, c.moves, c.says)
			}
			if want := w.Now.Add(c.again); c.again > 0 && !d.RecheckAt.Equal(want) {
				t.Errorf("looks again at %s, want %s", d.RecheckAt, want)
			}
		})
	}
}

// During a rollout there are more pods than replicas, and all of them serve.
func TestCordonMovesPodsBeyondTheReplicasInSteps(t *testing.T) {
	w := newSnapshot(Policy{}, 1, []Pod{
		{Name: "stays", AssignedClass: Spot, NodeClass: Spot, Phase: Ready, Created: noon},
		{Name: "first", AssignedClass: Spot, NodeClass: Spot, Phase: Ready, Created: noon, NodeTerminating: true, Cordoned: true},
		{Name: "second", AssignedClass: Spot, NodeClass: Spot, Phase: Ready, Created: noon, NodeTerminating: true, Cordoned: true},
	})
	if d := Decide(w); len(d.Moves) != 1 {
		t.Errorf("%d moves, %q", len(d.Moves), d.Reason)
	}
}

// drawTerminatingNodes generates a workload with some nodes going away, each for its own reason.
func drawTerminatingNodes(t *rapid.T) Snapshot {
	replicas := rapid.IntRange(1, 12).Draw(t, "replicas")
	pods := drawPods(t, replicas)
	for n := range pods {
		pod := &pods[n]
		pod.Phase = rapid.SampledFrom([]Phase{Starting, Ready, Ready, Ready}).Draw(t, "phase")
		switch rapid.SampledFrom([]string{"stays", "cordoned", "cordoned", "noticed", "noticed", "late", "lost"}).Draw(t, "node") {
		case "cordoned":
			pod.NodeTerminating, pod.Cordoned = true, true
		case "noticed":
			pod.NodeTerminating, pod.InterruptedAt = true, noon.Add(time.Hour-time.Duration(rapid.IntRange(0, 14).Draw(t, "ago"))*time.Second)
		case "late":
			pod.NodeTerminating, pod.InterruptedAt = true, noon
		case "lost":
			pod.NodeTerminating, pod.NodeDown = true, true
		}
	}
	w := newSnapshot(drawPolicy(t), replicas, pods)
	w.Budget.Step = rapid.IntRange(0, 4).Draw(t, "step")
	w.Hold = rapid.SampledFrom([]string{"", "the window is closed"}).Draw(t, "hold")
	return w
}

// A cordon moves no more pods than other reasons do, and a notice never takes the last Ready pod before its deadline is near.
func TestPodsOfTerminatingNodesMoveInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawTerminatingNodes(t)
		away := (&planner{Snapshot: w, policy: *w.Policy, livePods: assignNumbers(*w.Policy, w.Replicas, w.Pods)}).countAway()
		moved := countMoves(w)
		if moved.cordoned > 0 && w.Hold != "" {
			t.Fatalf("%d cordoned pods moved while %s", moved.cordoned, w.Hold)
		}
		if room := max(1, w.Budget.Step) - away; moved.cordoned > max(0, room) {
			t.Fatalf("%d cordoned pods moved, and there was room for %d", moved.cordoned, room)
		}
		if w.Replicas > 1 && moved.ready > 0 && moved.remaining == 0 && moved.urgent == 0 && moved.cordoned == 0 {
			t.Fatalf("none of %d Ready pods is left", moved.ready)
		}
	})
}

// moveCounts counts the Ready pods of a workload: all of them, those left after a decision, and those that leave, by reason.
type moveCounts struct{ ready, remaining, cordoned, urgent int }

func countMoves(w Snapshot) (counts moveCounts) {
	serving := map[string]Pod{}
	for _, pod := range w.Pods {
		if pod.Phase == Ready && !pod.NodeDown {
			serving[pod.Name] = pod
		}
	}
	counts.ready, counts.remaining = len(serving), len(serving)
	for _, move := range Decide(w).Moves {
		pod, served := serving[move.Pod]
		switch {
		case !served:
			continue
		case pod.Cordoned:
			counts.cordoned++
		case pod.NodeTerminating && !w.Now.Before(pod.urgentAt()):
			counts.urgent++
		}
		counts.remaining--
	}
	return counts
}

// All nodes are cordoned, and new ones come: the workload never lacks more than its step, and in the end all pods have moved.
func TestCordonOfAllNodesIsWorkedOffInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas, step := rapid.IntRange(1, 12).Draw(t, "replicas"), rapid.IntRange(1, 4).Draw(t, "step")
		c := newCluster(drawPolicy(t), replicas, nil)
		c.Budget.Step = step
		c.expectBalanced(t, 20)
		for n := range c.Pods {
			c.Pods[n].NodeTerminating, c.Pods[n].Cordoned = true, true
		}
		closed := rapid.IntRange(0, 5).Draw(t, "closed")
		for tick := range 20 * (replicas + 1) {
			c.Hold = ""
			if tick < closed {
				c.Hold = "the window is closed"
			}
			c.tick()
			if c.countReady("") < replicas-step || c.Hold != "" && c.countReady("") < replicas {
				t.Fatalf("%d Ready of %d, step %d, %q", c.countReady(""), replicas, step, c.Hold)
			}
		}
		c.expectAllMoved(t)
	})
}

// All nodes get an interruption notice: one pod serves until the first replacement does.
func TestNoticeToAllNodesKeepsOneReady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.IntRange(2, 12).Draw(t, "replicas")
		c := newCluster(drawPolicy(t), replicas, nil)
		c.expectBalanced(t, 20)
		for n := range c.Pods {
			c.Pods[n].NodeTerminating, c.Pods[n].InterruptedAt = true, c.Now.Add(tickInterval) // when the operator decides next
		}
		for range 20 {
			c.tick()
			if c.countReady("") == 0 {
				t.Fatalf("no pod is Ready: %v", c.Pods)
			}
		}
		c.expectAllMoved(t)
	})
}

func (c *cluster) expectAllMoved(t *rapid.T) {
	for _, pod := range c.Pods {
		if pod.NodeTerminating && pod.Phase != Terminating {
			t.Fatalf("still on a node that is going away: %v", fmt.Sprint(pod))
		}
	}
}
