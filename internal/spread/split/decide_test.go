package split

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// newSnapshot returns a snapshot in which nothing prevents a move.
func newSnapshot(policy Policy, replicas int, pods []Pod) Snapshot {
	return Snapshot{
		Policy: &policy, Replicas: replicas, Pods: pods,
		Spot: Capacity{Nodes: 3}, OnDemand: Capacity{Nodes: 3}, Budget: Budget{Allowed: NoLimit, Step: 1},
		Now: noon.Add(time.Hour), Cooldown: 10 * time.Second, PendingDeadline: time.Minute,
	}
}

// podsOnClasses returns a Ready pod per letter, numbered in order: s runs on spot, o on on-demand; S and O have been Pending for them since
// noon.
func podsOnClasses(letters string) []Pod {
	var pods []Pod
	for n, letter := range letters {
		class := OnDemand
		if strings.ContainsRune("sS", letter) {
			class = Spot
		}
		pod := Pod{Name: fmt.Sprintf("web-%d", n), Number: n, AssignedClass: class, Created: noon}
		if strings.ContainsRune("so", letter) {
			pod.NodeClass, pod.Phase = class, Ready
		}
		pods = append(pods, pod)
	}
	return pods
}

var policy60 = Policy{MinOnDemand: 2, SpotPercent: 60}

const tenClasses = "oosssososs" // the classes of the first ten under sixty

func balancedPods() []Pod { return podsOnClasses(tenClasses) }

func TestClassesOfTen(t *testing.T) {
	var classes strings.Builder
	for k := range 10 {
		classes.WriteString(string(Of(policy60, k)[0]))
	}
	if classes.String() != tenClasses {
		t.Errorf("got %s, want %s", classes.String(), tenClasses)
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		reason string
		change func(*Snapshot)
		moves  string
		word   Status
		says   string
	}{
		{"balanced is left alone", func(*Snapshot) {}, "", Balanced, "4 on-demand and 6 spot, as wanted"},
		{"all on-demand: one pod tries spot first", func(w *Snapshot) { w.Pods, w.Budget.Step = podsOnClasses("oooooooooo"), 5 },
			"evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"all spot: one pod tries on-demand first, highest number", func(w *Snapshot) { w.Pods, w.Budget.Step = podsOnClasses("ssssssssss"), 5 },
			"evict web-7 to on-demand", Rebalancing, "moving 1 pod"},
		{"in steps when pods are Ready", func(w *Snapshot) { w.Pods, w.Budget.Step = podsOnClasses("oososooooo"), 3 },
			"evict web-9 to spot, evict web-8 to spot, evict web-6 to spot", Rebalancing, "moving 3 pods"},
		{"no more than budgets allow", func(w *Snapshot) { w.Pods, w.Budget = podsOnClasses("oososooooo"), Budget{Allowed: 1, Step: 3} },
			"evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"a budget allows nothing", func(w *Snapshot) { w.Pods, w.Budget = podsOnClasses("oososooooo"), Budget{Step: 3} }, "", BlockedByPDB,
			"its PodDisruptionBudget allows no more"},
		{"the override deletes", func(w *Snapshot) { w.Pods, w.Budget = podsOnClasses("oososooooo"), Budget{Step: 1, Override: true} },
			"delete web-9 to spot", Rebalancing, "moving 1 pod"},
		{"replacements come first", func(w *Snapshot) { w.Pods = podsOnClasses("oososooooo")[:9] }, "", Rebalancing, "waiting: 1 pod of 10 away"},
		{"cooldown", func(w *Snapshot) { w.Pods, w.LastMove = podsOnClasses("oososooooo"), w.Now.Add(-time.Second) }, "", Rebalancing,
			"the last change was less than 10s ago"},
		{"cooldown, guessed from the newest pod", func(w *Snapshot) {
			w.Pods = podsOnClasses("oososooooo")
			w.Pods[0].Created = w.Now.Add(-time.Second)
		}, "", Rebalancing, "less than 10s"},
		{"a rollout is left alone", func(w *Snapshot) { w.Pods, w.Hold = podsOnClasses("oososooooo"), "a rollout is in progress" }, "",
			Rebalancing, "waiting: a rollout is in progress"},
		{"shrinking: the excess goes by itself", func(w *Snapshot) { w.Pods, w.Replicas = podsOnClasses("oooooooooo"), 5 }, "", Rebalancing,
			"5 pods more than the replicas"},
		{"a pair on each other's class is the right mix", func(w *Snapshot) {
			w.Pods = balancedPods()
			w.Pods[0].NodeClass, w.Pods[9].NodeClass = Spot, OnDemand
		}, "", Balanced, "as wanted"},
		{"made without admission and right by chance", func(w *Snapshot) {
			for n := range w.Pods {
				w.Pods[n].Number, w.Pods[n].AssignedClass = Unnumbered, ""
			}
		}, "", Balanced, "as wanted"},
		{"an odd scale-down left a gap of the same class", func(w *Snapshot) { w.Pods[9].Number = 14 }, "", Balanced, "as wanted"},
		{"one number twice", func(w *Snapshot) { w.Pods[9].Number = 8 }, "", Balanced, "as wanted"},
		{"the volume does not let it go", func(w *Snapshot) {
			w.Pods[9].NodeClass, w.Pods[9].ImmovableReason = OnDemand,
				"has a volume in zone a"
		}, "", Rebalancing, "1 pod cannot be moved: web-9 has a volume in zone a"},
		{"the floor keeps its Ready pods", func(w *Snapshot) {
			w.Policy, w.Replicas, w.Pods = &Policy{MinOnDemand: 2, SpotPercent: 100}, 4, podsOnClasses("oOso")
			w.OnDemand.Nodes = 0
		}, "", Rebalancing, "only 2 Ready on on-demand nodes, and the floor is 2"},
		{"a node that goes away is left before, cooldown or not", func(w *Snapshot) { w.Pods[2].NodeTerminating, w.LastMove = true, w.Now },
			"evict web-2 to spot", Rebalancing, "moving 1 pod"},
		{"also by a pod beyond the replicas, as in a rollout", func(w *Snapshot) { w.Replicas, w.Pods[9].NodeTerminating = 9, true },
			"evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"but one that has just come stays for a while", func(w *Snapshot) {
			w.Pods[2].NodeTerminating, w.Pods[2].Created = true, w.Now.Add(-10*time.Second)
		}, "", Rebalancing, "waiting: pods of nodes that are going away come first"},
		{"however long the cooldown is", func(w *Snapshot) {
			w.Pods[2].NodeTerminating, w.Pods[2].Created, w.Cooldown = true, w.Now.Add(-11*time.Second), time.Hour
		}, "evict web-2 to spot", Rebalancing, "moving 1 pod"},
		{"and not where no pod is Ready", func(w *Snapshot) {
			w.Pods[2].NodeTerminating, w.Pods[2].NodeDown, w.Pods[2].Created = true, true, w.Now
		}, "evict web-2 to spot", Rebalancing, "moving 1 pod"},
		{"nor where it cannot serve yet, and may have come back to where it was", func(w *Snapshot) {
			w.Pods[2].NodeTerminating, w.Pods[2].NodeDown, w.Pods[2].Phase, w.Pods[2].Created = true, true, Starting, w.Now
		}, "", Rebalancing, "pods of nodes that are going away come first"},
		{"a pod that is not Ready leaves though its budget is exhausted", func(w *Snapshot) {
			w.Pods[2].NodeTerminating, w.Pods[2].NodeDown, w.Pods[2].Phase, w.Pods[3].NodeTerminating, w.Budget.Allowed = true, true, Starting, true,
				0
		}, "evict web-2 to spot", Rebalancing, "moving 1 pod"},
		{"and takes nothing from the others", func(w *Snapshot) {
			w.Pods[2].NodeTerminating, w.Pods[2].NodeDown, w.Pods[2].Phase, w.Pods[3].NodeTerminating, w.Budget.Allowed = true, true, Starting, true,
				1
		}, "evict web-2 to spot, evict web-3 to spot", Rebalancing, "moving 2 pods"},
		{"where there is no node for its replacement a pod serves as long as it can", func(w *Snapshot) {
			w.Pods[0].NodeTerminating, w.OnDemand = true, Capacity{Static: true}
		}, "", Rebalancing, "waiting: there is no other node for pods of nodes that are going away"},
		{"and keeps no other pod from moving", func(w *Snapshot) {
			w.Pods, w.OnDemand = podsOnClasses("oososooooo"), Capacity{Static: true}
			w.Pods[0].NodeTerminating = true
		}, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"while a budget is the better reason", func(w *Snapshot) {
			w.Pods[2].NodeTerminating, w.Pods[3].NodeTerminating, w.Pods[3].Created, w.Budget.Allowed = true, true, w.Now, 0
		}, "", BlockedByPDB, "its PodDisruptionBudget allows no more"},
		{"but it goes if nodes are made for those that wait", func(w *Snapshot) { w.Pods[0].NodeTerminating, w.OnDemand = true, Capacity{} },
			"evict web-0 to on-demand", Rebalancing, "moving 1 pod"},
		{"and if no pod is Ready", func(w *Snapshot) {
			w.Pods[0].NodeTerminating, w.Pods[0].NodeDown, w.OnDemand = true, true, Capacity{Static: true}
		}, "evict web-0 to on-demand", Rebalancing, "moving 1 pod"},
		{"the last replacement came without a place: the others would fare no better", func(w *Snapshot) {
			w.Pods, w.LastMove = podsOnClasses("oososooooo"), w.Now.Add(-9*time.Minute)
			w.Pods[8].Number, w.Pods[8].AssignedClass, w.Pods[8].Created = Unnumbered, "", w.LastMove
		}, "", Rebalancing, "the last replacement came without a place: can the API server reach the webhook?"},
		{"after a long while one of them tries", func(w *Snapshot) {
			w.Pods, w.LastMove, w.Budget.Step = podsOnClasses("oososooooo"), w.Now.Add(-10*time.Minute), 3
			w.Pods[8].Number, w.Pods[8].AssignedClass, w.Pods[8].Created = Unnumbered, "", w.LastMove
		}, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"and does, even if other pods there do not become Ready", func(w *Snapshot) {
			w.Pods, w.LastMove, w.Budget.Step = podsOnClasses("oososooooo"), w.Now.Add(-10*time.Minute), 3
			w.Pods[8].Number, w.Pods[8].AssignedClass, w.Pods[8].Created, w.Pods[4].Phase = Unnumbered, "", w.LastMove, Starting
		}, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"it came to its place, and another pod came without later", func(w *Snapshot) {
			w.Pods, w.LastMove = podsOnClasses("oososooooo"), w.Now.Add(-time.Minute)
			w.Pods[4].Created, w.Pods[8].AssignedClass, w.Pods[8].Created = w.LastMove, "", w.LastMove.Add(20*time.Second)
		}, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"nor may a node that goes away break a budget", func(w *Snapshot) { w.Pods[2].NodeTerminating, w.Budget.Allowed = true, 0 }, "",
			BlockedByPDB, "allows no more"},
		{"fewer replicas than the floor", func(w *Snapshot) { w.Policy, w.Replicas, w.Pods = &Policy{5, 60}, 3, podsOnClasses("ooo") }, "",
			Balanced, "3 pods, and the floor is 5: all on-demand"},
		{"nothing is asked for", func(w *Snapshot) { w.Policy = nil }, "", "", ""},
		{"invalid: the last valid setting stays", func(w *Snapshot) { w.Problem, w.Pods = "x", podsOnClasses("oososooooo") },
			"evict web-9 to spot", Invalid, "the last valid setting stays: at least 2 on-demand, 60% spot"},
		{"invalid from the start", func(w *Snapshot) { w.Problem, w.Policy, w.Pods = "x", nil, podsOnClasses("oooooooooo") }, "", Invalid,
			"nothing is moved"},
		{"a number without a pod tries first", func(w *Snapshot) { w.Pods, w.Budget.Step = podsOnClasses("ooooooooo"), 5 }, "", Rebalancing,
			"one pod tries spot nodes first"},
		{"a pod that has no node disturbs no other", func(w *Snapshot) {
			w.Pods[9], w.Now, w.Budget = podsOnClasses("oooooooooO")[9], noon.Add(30*time.Second), Budget{}
		}, "delete web-9 to spot", Rebalancing, "moving 1 pod"},
		{"a pod that does not get Ready may be the one to go", func(w *Snapshot) { w.Pods[9].NodeClass, w.Pods[9].Phase = OnDemand, Starting },
			"evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"but not while another one is away", func(w *Snapshot) {
			w.Pods[9].NodeClass, w.Pods[9].Phase, w.Pods[0].Phase = OnDemand, Starting, Starting
		}, "", Rebalancing, "waiting: 2 pods of 10 away"},
		{"scaled to nothing", func(w *Snapshot) { w.Replicas = 0 }, "", Rebalancing, "waiting: 10 pods more than the replicas"},
		{"no replicas", func(w *Snapshot) { w.Replicas, w.Pods = 0, nil }, "", Balanced, "0 on-demand and 0 spot"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			world := newSnapshot(policy60, 10, balancedPods())
			c.change(&world)
			expectDecision(t, world, c.moves, c.word, c.says)
		})
	}
}

// The cost of a decision grows with the pods, and no faster.
func BenchmarkDecide(b *testing.B) {
	for _, size := range []int{1_000, 10_000} {
		snapshot := newSnapshot(policy60, size, podsOnClasses(strings.Repeat(tenClasses, size/len(tenClasses))))
		b.Run(fmt.Sprintf("%d pods", size), func(b *testing.B) {
			for b.Loop() {
				Decide(snapshot)
			}
		})
	}
}

func expectDecision(t *testing.T, snapshot Snapshot, moves string, word Status, reason string) {
	t.Helper()
	decision := Decide(snapshot)
	var got []string
	for _, move := range decision.Moves {
		got = append(got, fmt.Sprintf("%s %s to %s", move.Verb, move.Pod, move.To))
	}
	if strings.Join(got, ", ") != moves {
		t.Errorf("moves %q, want %q", strings.Join(got, ", "), moves)
	}
	if decision.Status != word || !strings.Contains(decision.Reason, reason) {
		t.Errorf("says %s: %s, want %s: %s", decision.Status, decision.Reason, word, reason)
	}
	slices.Reverse(snapshot.Pods)
	if again := Decide(snapshot); fmt.Sprint(again) != fmt.Sprint(decision) {
		t.Errorf("the order of pods matters: %v, then %v", decision, again)
	}
}

// Nodes that go as fast as they come are no room, unless a pod that may stay shows otherwise.
func TestClassWithoutCapacity(t *testing.T) {
	for _, c := range []struct {
		reason string
		change func(*Snapshot)
		want   Availability
	}{
		{"all that are there leave, and one of them has just come", func(w *Snapshot) { w.Pods[9].Created = w.Now }, Unavailable},
		{"another may stay", func(w *Snapshot) { w.Pods[9].Created, w.Pods[8].NodeTerminating = w.Now, false }, Available},
		{"they have been there for long", func(*Snapshot) {}, Available},
		{"the node of the one that has just come is silent", func(w *Snapshot) { w.Pods[9].Created, w.Pods[9].NodeDown = w.Now, true },
			Available},
		{"a failure of yesterday, and a pod came since", func(w *Snapshot) {
			w.Spot.NoCapacitySince, w.Pods[8].NodeTerminating = noon.Add(-time.Hour), false
		}, Available},
		{"a new node is tried when a try and the way back have had their cooldowns", func(w *Snapshot) {
			w.Pods[9].Created, w.Spot.NodeAvailableAt = w.Now.Add(-10*time.Second), w.Now
		}, Unavailable},
	} {
		snapshot := newSnapshot(policy60, 10, balancedPods())
		for n := range snapshot.Pods {
			snapshot.Pods[n].NodeTerminating = snapshot.Pods[n].NodeClass == Spot
		}
		c.change(&snapshot)
		decision := Decide(snapshot)
		if got := decision.Classes.Spot; got.Availability != c.want || c.want == Available && !got.NoCapacitySince.IsZero() ||
			!got.PodOverdueAt.IsZero() {
			t.Errorf("%s: %+v", c.reason, got)
		}
	}
}

func TestDecideWithoutCapacity(t *testing.T) {
	afterDeadline := func(w *Snapshot) { w.Now = noon.Add(61 * time.Second) }
	mostlyOnDemand := func(w *Snapshot) { w.Pods = podsOnClasses("oososooooo") } // 3, 6, 8 and 9 are not where they belong
	for _, c := range []struct {
		reason string
		change func(*Snapshot)
		moves  string
		word   Status
		says   string
	}{
		{"a pending pod is given time", func(w *Snapshot) { w.Pods[9], w.Now = podsOnClasses("oooooooooS")[9], noon.Add(59*time.Second) }, "",
			Rebalancing, "waiting for 1 pod"},
		{"then it falls back", func(w *Snapshot) { w.Pods[9] = podsOnClasses("oooooooooS")[9]; afterDeadline(w) }, "delete web-9 to on-demand",
			SpotUnavailable, "1 pod short on spot nodes, which have no room"},
		{"at once where no provisioner adds nodes", func(w *Snapshot) {
			w.Pods[9], w.Now, w.Spot = podsOnClasses("oooooooooS")[9], noon.Add(time.Second), Capacity{Static: true}
		}, "delete web-9 to on-demand", SpotUnavailable, "no room"},
		{"behind a gate it waits for no node", func(w *Snapshot) {
			w.Pods[9] = podsOnClasses("oooooooooS")[9]
			w.Pods[9].Gated = true
			afterDeadline(w)
		}, "", Rebalancing, "waiting: scheduling gates hold 1 pod back"},
		{"and counts as away, however long", func(w *Snapshot) {
			w.Pods = podsOnClasses("oososooooS")
			w.Pods[9].Gated = true
		}, "", Rebalancing, "waiting: 1 pod of 10 away"},
		{"its time begins when the gate is gone", func(w *Snapshot) {
			w.Pods[9] = podsOnClasses("oooooooooS")[9]
			w.Pods[9].SchedulableSince, w.Now = noon.Add(time.Hour), noon.Add(time.Hour+59*time.Second)
		}, "", Rebalancing, "waiting for 1 pod"},
		{"and ends", func(w *Snapshot) {
			w.Pods[9] = podsOnClasses("oooooooooS")[9]
			w.Pods[9].SchedulableSince, w.Now = noon.Add(time.Hour), noon.Add(time.Hour+60*time.Second)
		}, "delete web-9 to on-demand", SpotUnavailable, "no room"},
		{"a rollout: the minimum of the new ReplicaSet waits, whatever number is free", func(w *Snapshot) {
			w.Replicas, w.Pods, w.Hold = 4, append(podsOnClasses("oos"), podsOnClasses("O")...), "a rollout is in progress"
			w.Pods[3].Name, w.Pods[3].TemplateHash = "web-new", "new"
			afterDeadline(w)
		}, "", Rebalancing, "waiting: a rollout is in progress"},
		{"Ready pods stay though spot is gone", func(w *Snapshot) { w.Spot = Capacity{Static: true} }, "", Balanced, "as wanted"},
		{"a fallback asks no budget and no rollout", func(w *Snapshot) {
			w.Pods[9], w.Budget, w.Hold = podsOnClasses("oooooooooS")[9], Budget{}, "a rollout is in progress"
			afterDeadline(w)
		}, "delete web-9 to on-demand", SpotUnavailable, "no room"},
		{"spot failed lately: left alone", func(w *Snapshot) { mostlyOnDemand(w); w.Spot.NoCapacitySince = w.Now.Add(-time.Minute) }, "",
			SpotUnavailable, "4 pods short on spot nodes, which have no room"},
		{"spot is back: one pod tries", func(w *Snapshot) {
			mostlyOnDemand(w)
			w.Spot.NoCapacitySince, w.Spot.NodeAvailableAt, w.Budget.Step = w.Now.Add(-time.Minute), w.Now, 5
		}, "evict web-9 to spot", SpotUnavailable, "number 9 tries whether there is room again"},
		{"a node came just before spot failed: one pod tries", func(w *Snapshot) {
			mostlyOnDemand(w)
			w.Spot.NoCapacitySince, w.Spot.NodeAvailableAt, w.Budget.Step = w.Now.Add(-time.Minute), w.Now.Add(-65*time.Second), 5
		}, "evict web-9 to spot", SpotUnavailable, "number 9 tries whether there is room again"},
		{"a node came in good time, and spot failed: left alone", func(w *Snapshot) {
			mostlyOnDemand(w)
			w.Spot.NoCapacitySince, w.Spot.NodeAvailableAt = w.Now.Add(-time.Minute), w.Now.Add(-71*time.Second)
		}, "", SpotUnavailable, "4 pods short on spot nodes, which have no room"},
		{"spot failed long ago: one pod tries", func(w *Snapshot) {
			mostlyOnDemand(w)
			w.Spot.NoCapacitySince, w.Budget.Step = w.Now.Add(-10*time.Minute), 5
		}, "evict web-9 to spot", SpotUnavailable, "number 9 tries"},
		{"while one tries the others stay", func(w *Snapshot) {
			mostlyOnDemand(w)
			w.Spot.NoCapacitySince, w.Budget.Step = w.Now.Add(-11*time.Minute), 5
			w.Pods[9] = Pod{Name: "web-9", Number: 9, AssignedClass: Spot, Created: w.Now.Add(-30 * time.Second)}
		}, "", SpotUnavailable, "number 9 tries"},
		{"it has arrived: the others follow in steps", func(w *Snapshot) {
			mostlyOnDemand(w)
			w.Spot.NoCapacitySince, w.Budget.Step = w.Now.Add(-11*time.Minute), 2
			w.Pods[9] = Pod{Name: "web-9", Number: 9, AssignedClass: Spot, NodeClass: Spot, Phase: Ready, Created: w.Now.Add(-30 * time.Second)}
		}, "evict web-8 to spot, evict web-6 to spot", Rebalancing, "moving 2 pods"},
		{"on-demand is short: above the floor spot helps out", func(w *Snapshot) { w.Pods[5] = podsOnClasses("oosssO")[5]; afterDeadline(w) },
			"delete web-5 to spot", Rebalancing, "moving 1 pod"},
		{"on-demand is short: the floor waits", func(w *Snapshot) { w.Pods[1] = podsOnClasses("oO")[1]; afterDeadline(w) }, "", Rebalancing,
			"1 pod pending, and there is no room where they may go"},
		{"both are short: nothing goes back and forth", func(w *Snapshot) {
			w.Pods[9] = podsOnClasses("oooooooooS")[9]
			w.OnDemand.NoCapacitySince = noon
			afterDeadline(w)
		}, "", SpotUnavailable, "no room"},
		{"nor does one that was made without us", func(w *Snapshot) {
			w.Pods = podsOnClasses("oOsssooooo")
			w.Pods[1].AssignedClass, w.Pods[1].Number = "", Unnumbered
		}, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"both were short: one that waits in vain tries the other", func(w *Snapshot) {
			w.Pods[9], w.Pods[8] = podsOnClasses("oooooooooS")[9], podsOnClasses("ooooooooS")[8]
			w.Now = noon.Add(2 * time.Minute)
			w.OnDemand.NoCapacitySince = w.Now.Add(-11 * time.Minute)
			w.Pods[0].Created, w.Pods[1].Created = noon.Add(-time.Hour), noon.Add(-time.Hour)
			w.Pods[5].Created, w.Pods[7].Created = noon.Add(-time.Hour), noon.Add(-time.Hour)
		}, "delete web-8 to on-demand", SpotUnavailable, "no room"},
		{"one Pending pod does not stop the others", func(w *Snapshot) { w.Pods = podsOnClasses("oOsssooooo") }, "evict web-9 to spot",
			Rebalancing, "moving 1 pod"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			world := newSnapshot(policy60, 10, balancedPods())
			c.change(&world)
			expectDecision(t, world, c.moves, c.word, c.says)
		})
	}
}

func TestClassFor(t *testing.T) {
	closed, tries := ClassState{Availability: Unavailable, ProbeNumber: Unnumbered}, ClassState{Availability: Probing, ProbeNumber: 9}
	for _, c := range []struct {
		reason   string
		shortage ClassStates
		number   int
		want     Class
	}{
		{"nothing is short", ClassStates{}, 9, Spot},
		{"spot is short", ClassStates{Spot: closed}, 9, OnDemand},
		{"this one tries", ClassStates{Spot: tries}, 9, Spot},
		{"another one tries", ClassStates{Spot: tries}, 8, OnDemand},
		{"on-demand is short", ClassStates{OnDemand: closed}, 5, Spot},
		{"the floor stays", ClassStates{OnDemand: closed}, 1, OnDemand},
		{"both are short", ClassStates{Spot: closed, OnDemand: closed}, 9, Spot},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := c.shortage.ClassFor(policy60, c.number); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestRecheckAt(t *testing.T) {
	snapshot := newSnapshot(policy60, 10, balancedPods())
	if recheckAt := Decide(snapshot).RecheckAt; !recheckAt.IsZero() {
		t.Errorf("balanced looks again at %s", recheckAt)
	}
	snapshot.Pods[9] = podsOnClasses("oooooooooS")[9]
	snapshot.Now = noon.Add(20 * time.Second)
	if recheckAt := Decide(snapshot).RecheckAt; !recheckAt.Equal(noon.Add(time.Minute)) {
		t.Errorf("a pending pod: %s", recheckAt)
	}
	snapshot.Now = noon.Add(2 * time.Minute)
	decision := Decide(snapshot)
	if failed := decision.Classes.Spot.NoCapacitySince; !failed.Equal(noon.Add(time.Minute)) {
		t.Errorf("failed at %s", failed)
	}
	if !decision.RecheckAt.Equal(noon.Add(11 * time.Minute)) {
		t.Errorf("spot is tried again at %s", decision.RecheckAt)
	}
	snapshot.Pods, snapshot.LastMove = podsOnClasses("oososooooo"), snapshot.Now.Add(-time.Second)
	if recheckAt := Decide(snapshot).RecheckAt; !recheckAt.Equal(snapshot.Now.Add(9 * time.Second)) {
		t.Errorf("cooldown: %s", recheckAt)
	}
}

func TestStatusText(t *testing.T) {
	for want, decision := range map[string]Decision{
		"Balanced": {Status: Balanced}, "": {}, "Invalid: no": {Status: Invalid, problem: "no"},
	} {
		if got := decision.StatusText(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
