package spread

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// leaving returns ten Ready pods, all on nodes that are going away, in a cluster that adds nodes for Pending pods.
func leaving(mark func(*Pod)) World {
	pods := right()
	for n := range pods {
		pods[n].Doomed = true
		mark(&pods[n])
	}
	w := quiet(sixty, 10, pods)
	w.Spot, w.OnDemand = Supply{}, Supply{}
	return w
}

func cordon(pod *Pod) { pod.Cordoned = true }

// warned marks pods whose node got an interruption notice some time ago.
func warned(ago time.Duration) func(*Pod) {
	return func(pod *Pod) { pod.Noticed = noon.Add(time.Hour - ago) }
}

func TestAllNodesGoAtOnce(t *testing.T) {
	const closed = "the disruption windows are closed until tomorrow"
	for _, c := range []struct {
		reason string
		mark   func(*Pod)
		change func(*World)
		moves  int
		says   string
		again  time.Duration
	}{
		{"cordoned: one step at a time", cordon, func(*World) {}, 1, "moving 1 pod", 0},
		{"cordoned: the step counts", cordon, func(w *World) { w.Budget.Step = 3 }, 3, "moving 3 pods", 0},
		{"cordoned: replacements come first", cordon, func(w *World) { w.Pods = w.Pods[:9] }, 0, "1 pod of 10 away", 0},
		{"cordoned: the window is closed", cordon, func(w *World) { w.Hold = closed }, 0, closed, 0},
		{"cordoned: a budget allows less than the step", cordon, func(w *World) { w.Budget = Budget{Allowed: 2, Step: 5} }, 2, "moving 2 pods", 0},
		{"cordoned: an override deletes no faster", cordon, func(w *World) { w.Budget = Budget{Allowed: NoLimit, Step: 2, Override: true} }, 2, "moving 2 pods", 0},
		{"cordoned: the nodes are lost", func(pod *Pod) { pod.Cordoned, pod.Lost = true, true }, func(w *World) { w.Hold = closed }, 10, "moving 10 pods", 0},
		{"cordoned: a pod that is not Ready disturbs no other", cordon, func(w *World) { w.Hold, w.Pods[3].Phase = closed, Starting }, 1, "moving 1 pod", 0},
		{"noticed: one stays, whatever the window", warned(time.Second), func(w *World) { w.Hold = closed }, 9, "moving 9 pods", urgency - time.Second},
		{"noticed: the deadline is near", warned(urgency), func(w *World) { w.Hold = closed }, 10, "moving 10 pods", 0},
		{"noticed: since when is unknown", func(*Pod) {}, func(*World) {}, 10, "moving 10 pods", 0},
		{"noticed: a budget counts to the end", warned(time.Hour), func(w *World) { w.Budget.Allowed = 4 }, 4, "moving 4 pods", 0},
		{"noticed: the nodes are lost", func(pod *Pod) { warned(0)(pod); pod.Lost = true }, func(*World) {}, 10, "moving 10 pods", 0},
		{"noticed: others are Ready elsewhere", warned(0), func(w *World) { w.Pods[0].Doomed = false }, 9, "moving 9 pods", 0},
		{"noticed: the last one that is Ready stays", warned(0), func(w *World) {
			for n := range 9 {
				w.Pods[n].Phase, w.Pods[n].Doomed = Starting, false
			}
		}, 0, lastReady, urgency},
		{"noticed: the only replica goes", warned(0), func(w *World) { w.Replicas, w.Pods = 1, w.Pods[:1] }, 1, "moving 1 pod", 0},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w := leaving(c.mark)
			c.change(&w)
			d := Next(w)
			if len(d.Moves) != c.moves || !strings.Contains(d.Reason, c.says) {
				t.Errorf("%d moves, %q; want %d, %q", len(d.Moves), d.Reason, c.moves, c.says)
			}
			if want := w.Now.Add(c.again); c.again > 0 && !d.Again.Equal(want) {
				t.Errorf("looks again at %s, want %s", d.Again, want)
			}
		})
	}
}

// During a rollout there are more pods than replicas, and all of them serve.
func TestCordonMovesPodsBeyondTheReplicasInSteps(t *testing.T) {
	w := quiet(Policy{}, 1, []Pod{
		{Name: "stays", Made: Spot, Node: Spot, Phase: Ready, Created: noon},
		{Name: "first", Made: Spot, Node: Spot, Phase: Ready, Created: noon, Doomed: true, Cordoned: true},
		{Name: "second", Made: Spot, Node: Spot, Phase: Ready, Created: noon, Doomed: true, Cordoned: true},
	})
	if d := Next(w); len(d.Moves) != 1 {
		t.Errorf("%d moves, %q", len(d.Moves), d.Reason)
	}
}

// someLeaving generates a workload with some nodes going away, each for its own reason.
func someLeaving(t *rapid.T) World {
	replicas := rapid.IntRange(1, 12).Draw(t, "replicas")
	pods := anyhow(t, replicas)
	for n := range pods {
		pod := &pods[n]
		pod.Phase = rapid.SampledFrom([]Phase{Starting, Ready, Ready, Ready}).Draw(t, "phase")
		switch rapid.SampledFrom([]string{"stays", "cordoned", "cordoned", "noticed", "noticed", "late", "lost"}).Draw(t, "node") {
		case "cordoned":
			pod.Doomed, pod.Cordoned = true, true
		case "noticed":
			pod.Doomed, pod.Noticed = true, noon.Add(time.Hour-time.Duration(rapid.IntRange(0, 14).Draw(t, "ago"))*time.Second)
		case "late":
			pod.Doomed, pod.Noticed = true, noon
		case "lost":
			pod.Doomed, pod.Lost = true, true
		}
	}
	w := quiet(somePolicy(t), replicas, pods)
	w.Budget.Step = rapid.IntRange(0, 4).Draw(t, "step")
	w.Hold = rapid.SampledFrom([]string{"", "the window is closed"}).Draw(t, "hold")
	return w
}

// A cordon moves no more pods than other reasons do, and a notice never takes the last Ready pod before its deadline is near.
func TestPodsOfGoingNodesLeaveWithCare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := someLeaving(t)
		away := (&pass{World: w, policy: *w.Policy, seats: seated(*w.Policy, w.Replicas, w.Pods)}).away()
		moved := countMoves(w)
		if moved.cordoned > 0 && w.Hold != "" {
			t.Fatalf("%d cordoned pods moved while %s", moved.cordoned, w.Hold)
		}
		if room := max(1, w.Budget.Step) - away; moved.cordoned > max(0, room) {
			t.Fatalf("%d cordoned pods moved, and there was room for %d", moved.cordoned, room)
		}
		if w.Replicas > 1 && moved.ready > 0 && moved.left == 0 && moved.hurried == 0 && moved.cordoned == 0 {
			t.Fatalf("none of %d Ready pods is left", moved.ready)
		}
	})
}

// moves counts the Ready pods of a workload: all of them, those left after a decision, and those that leave, by reason.
type moves struct{ ready, left, cordoned, hurried int }

func countMoves(w World) (all moves) {
	serving := map[string]Pod{}
	for _, pod := range w.Pods {
		if pod.Phase == Ready && !pod.Lost {
			serving[pod.Name] = pod
		}
	}
	all.ready, all.left = len(serving), len(serving)
	for _, move := range Next(w).Moves {
		pod, served := serving[move.Pod]
		switch {
		case !served:
			continue
		case pod.Cordoned:
			all.cordoned++
		case pod.Doomed && !w.Now.Before(pod.urgent()):
			all.hurried++
		}
		all.left--
	}
	return all
}

// All nodes are cordoned, and new ones come: the workload never lacks more than its step, and in the end all pods have moved.
func TestCordonOfAllNodesIsWorkedOffInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas, step := rapid.IntRange(1, 12).Draw(t, "replicas"), rapid.IntRange(1, 4).Draw(t, "step")
		c := begin(somePolicy(t), replicas, nil)
		c.Budget.Step = step
		c.settles(t, 20)
		for n := range c.Pods {
			c.Pods[n].Doomed, c.Pods[n].Cordoned = true, true
		}
		closed := rapid.IntRange(0, 5).Draw(t, "closed")
		for tick := range 20 * (replicas + 1) {
			c.Hold = ""
			if tick < closed {
				c.Hold = "the window is closed"
			}
			c.tick()
			if c.ready("") < replicas-step || c.Hold != "" && c.ready("") < replicas {
				t.Fatalf("%d Ready of %d, step %d, %q", c.ready(""), replicas, step, c.Hold)
			}
		}
		c.leftBehind(t)
	})
}

// All nodes get an interruption notice: one pod serves until the first replacement does.
func TestNoticeToAllNodesKeepsOneReady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.IntRange(2, 12).Draw(t, "replicas")
		c := begin(somePolicy(t), replicas, nil)
		c.settles(t, 20)
		for n := range c.Pods {
			c.Pods[n].Doomed, c.Pods[n].Noticed = true, c.Now.Add(beat) // when the operator looks next
		}
		for range 20 {
			c.tick()
			if c.ready("") == 0 {
				t.Fatalf("no pod is Ready: %v", c.Pods)
			}
		}
		c.leftBehind(t)
	})
}

func (c *cluster) leftBehind(t *rapid.T) {
	for _, pod := range c.Pods {
		if pod.Doomed && pod.Phase != Terminating {
			t.Fatalf("still on a node that is going away: %v", fmt.Sprint(pod))
		}
	}
}
