package spread

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// quiet returns a world in which nothing prevents a move.
func quiet(policy Policy, replicas int, pods []Pod) World {
	return World{
		Policy: &policy, Replicas: replicas, Pods: pods,
		Spot: Supply{Nodes: 3}, OnDemand: Supply{Nodes: 3}, Budget: Budget{Allowed: NoLimit, Step: 1},
		Now: noon.Add(time.Hour), Cooldown: 10 * time.Second, PendingDeadline: time.Minute,
	}
}

// crew returns a Ready pod per letter, numbered in order: s runs on spot, o on on-demand; S and O have been Pending for them since
// noon.
func crew(letters string) []Pod {
	var pods []Pod
	for n, letter := range letters {
		class := OnDemand
		if strings.ContainsRune("sS", letter) {
			class = Spot
		}
		pod := Pod{Name: fmt.Sprintf("web-%d", n), Number: n, Made: class, Created: noon}
		if strings.ContainsRune("so", letter) {
			pod.Node, pod.Phase = class, Ready
		}
		pods = append(pods, pod)
	}
	return pods
}

var sixty = Policy{MinOnDemand: 2, SpotPercent: 60}

const ten = "oosssososs" // the classes of the first ten under sixty

func right() []Pod { return crew(ten) }

func TestClassesOfTen(t *testing.T) {
	var classes strings.Builder
	for k := range 10 {
		classes.WriteString(string(Of(sixty, k)[0]))
	}
	if classes.String() != ten {
		t.Errorf("got %s, want %s", classes.String(), ten)
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		reason string
		change func(*World)
		moves  string
		word   Word
		says   string
	}{
		{"balanced is left alone", func(*World) {}, "", Balanced, "4 on-demand and 6 spot, as wanted"},
		{"all on-demand: one pod tries spot first", func(w *World) { w.Pods, w.Budget.Step = crew("oooooooooo"), 5 }, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"all spot: one pod tries on-demand first, highest number", func(w *World) { w.Pods, w.Budget.Step = crew("ssssssssss"), 5 }, "evict web-7 to on-demand", Rebalancing, "moving 1 pod"},
		{"in steps when pods are Ready", func(w *World) { w.Pods, w.Budget.Step = crew("oososooooo"), 3 }, "evict web-9 to spot, evict web-8 to spot, evict web-6 to spot", Rebalancing, "moving 3 pods"},
		{"no more than budgets allow", func(w *World) { w.Pods, w.Budget = crew("oososooooo"), Budget{Allowed: 1, Step: 3} }, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"a budget allows nothing", func(w *World) { w.Pods, w.Budget = crew("oososooooo"), Budget{Step: 3} }, "", BlockedByPDB, "its PodDisruptionBudget allows no more"},
		{"the override deletes", func(w *World) { w.Pods, w.Budget = crew("oososooooo"), Budget{Step: 1, Override: true} }, "delete web-9 to spot", Rebalancing, "moving 1 pod"},
		{"replacements come first", func(w *World) { w.Pods = crew("oososooooo")[:9] }, "", Rebalancing, "waiting: 1 pod of 10 away"},
		{"cooldown", func(w *World) { w.Pods, w.LastMove = crew("oososooooo"), w.Now.Add(-time.Second) }, "", Rebalancing, "the last change was less than 10s ago"},
		{"cooldown, guessed from the newest pod", func(w *World) { w.Pods = crew("oososooooo"); w.Pods[0].Created = w.Now.Add(-time.Second) }, "", Rebalancing, "less than 10s"},
		{"a rollout is left alone", func(w *World) { w.Pods, w.Hold = crew("oososooooo"), "a rollout is in progress" }, "", Rebalancing, "waiting: a rollout is in progress"},
		{"shrinking: the excess goes by itself", func(w *World) { w.Pods, w.Replicas = crew("oooooooooo"), 5 }, "", Rebalancing, "5 pods more than the replicas"},
		{"a pair on each other's class is the right mix", func(w *World) { w.Pods = right(); w.Pods[0].Node, w.Pods[9].Node = Spot, OnDemand }, "", Balanced, "as wanted"},
		{"made without admission and right by chance", func(w *World) {
			for n := range w.Pods {
				w.Pods[n].Number, w.Pods[n].Made = Unnumbered, ""
			}
		}, "", Balanced, "as wanted"},
		{"an odd scale-down left a gap of the same class", func(w *World) { w.Pods[9].Number = 14 }, "", Balanced, "as wanted"},
		{"one number twice", func(w *World) { w.Pods[9].Number = 8 }, "", Balanced, "as wanted"},
		{"the volume does not let it go", func(w *World) { w.Pods[9].Node, w.Pods[9].Bound = OnDemand, "has a volume in zone a" }, "", Rebalancing, "1 pod cannot be moved: web-9 has a volume in zone a"},
		{"the floor keeps its Ready pods", func(w *World) {
			w.Policy, w.Replicas, w.Pods = &Policy{MinOnDemand: 2, SpotPercent: 100}, 4, crew("oOso")
			w.OnDemand.Nodes = 0
		}, "", Rebalancing, "only 2 Ready on on-demand nodes, and the floor is 2"},
		{"a node that goes away is left before, cooldown or not", func(w *World) { w.Pods[2].Doomed, w.LastMove = true, w.Now }, "evict web-2 to spot", Rebalancing, "moving 1 pod"},
		{"also by a pod beyond the replicas, as in a rollout", func(w *World) { w.Replicas, w.Pods[9].Doomed = 9, true }, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"but one that has just come stays for a while", func(w *World) { w.Pods[2].Doomed, w.Pods[2].Created = true, w.Now.Add(-10*time.Second) }, "", Rebalancing, "waiting: pods of nodes that are going away come first"},
		{"however long the cooldown is", func(w *World) {
			w.Pods[2].Doomed, w.Pods[2].Created, w.Cooldown = true, w.Now.Add(-11*time.Second), time.Hour
		}, "evict web-2 to spot", Rebalancing, "moving 1 pod"},
		{"and not where no pod is Ready", func(w *World) { w.Pods[2].Doomed, w.Pods[2].Lost, w.Pods[2].Created = true, true, w.Now }, "evict web-2 to spot", Rebalancing, "moving 1 pod"},
		{"nor where it cannot serve yet, and may have come back to where it was", func(w *World) {
			w.Pods[2].Doomed, w.Pods[2].Lost, w.Pods[2].Phase, w.Pods[2].Created = true, true, Starting, w.Now
		}, "", Rebalancing, "pods of nodes that are going away come first"},
		{"a pod that is not Ready leaves though its budget is exhausted", func(w *World) {
			w.Pods[2].Doomed, w.Pods[2].Lost, w.Pods[2].Phase, w.Pods[3].Doomed, w.Budget.Allowed = true, true, Starting, true, 0
		}, "evict web-2 to spot", Rebalancing, "moving 1 pod"},
		{"and takes nothing from the others", func(w *World) {
			w.Pods[2].Doomed, w.Pods[2].Lost, w.Pods[2].Phase, w.Pods[3].Doomed, w.Budget.Allowed = true, true, Starting, true, 1
		}, "evict web-2 to spot, evict web-3 to spot", Rebalancing, "moving 2 pods"},
		{"where there is no node for its replacement a pod serves as long as it can", func(w *World) {
			w.Pods[0].Doomed, w.OnDemand = true, Supply{Static: true}
		}, "", Rebalancing, "waiting: there is no other node for pods of nodes that are going away"},
		{"and keeps no other pod from moving", func(w *World) {
			w.Pods, w.OnDemand = crew("oososooooo"), Supply{Static: true}
			w.Pods[0].Doomed = true
		}, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"while a budget is the better reason", func(w *World) {
			w.Pods[2].Doomed, w.Pods[3].Doomed, w.Pods[3].Created, w.Budget.Allowed = true, true, w.Now, 0
		}, "", BlockedByPDB, "its PodDisruptionBudget allows no more"},
		{"but it goes if nodes are made for those that wait", func(w *World) { w.Pods[0].Doomed, w.OnDemand = true, Supply{} }, "evict web-0 to on-demand", Rebalancing, "moving 1 pod"},
		{"and if no pod is Ready", func(w *World) {
			w.Pods[0].Doomed, w.Pods[0].Lost, w.OnDemand = true, true, Supply{Static: true}
		}, "evict web-0 to on-demand", Rebalancing, "moving 1 pod"},
		{"the last replacement came without a place: the others would fare no better", func(w *World) {
			w.Pods, w.LastMove = crew("oososooooo"), w.Now.Add(-9*time.Minute)
			w.Pods[8].Number, w.Pods[8].Made, w.Pods[8].Created = Unnumbered, "", w.LastMove
		}, "", Rebalancing, "the last replacement came without a place: can the API server reach the webhook?"},
		{"after a long while one of them tries", func(w *World) {
			w.Pods, w.LastMove, w.Budget.Step = crew("oososooooo"), w.Now.Add(-10*time.Minute), 3
			w.Pods[8].Number, w.Pods[8].Made, w.Pods[8].Created = Unnumbered, "", w.LastMove
		}, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"and does, even if other pods there do not become Ready", func(w *World) {
			w.Pods, w.LastMove, w.Budget.Step = crew("oososooooo"), w.Now.Add(-10*time.Minute), 3
			w.Pods[8].Number, w.Pods[8].Made, w.Pods[8].Created, w.Pods[4].Phase = Unnumbered, "", w.LastMove, Starting
		}, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"it came to its place, and another pod came without later", func(w *World) {
			w.Pods, w.LastMove = crew("oososooooo"), w.Now.Add(-time.Minute)
			w.Pods[4].Created, w.Pods[8].Made, w.Pods[8].Created = w.LastMove, "", w.LastMove.Add(20*time.Second)
		}, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"nor may a node that goes away break a budget", func(w *World) { w.Pods[2].Doomed, w.Budget.Allowed = true, 0 }, "", BlockedByPDB, "allows no more"},
		{"fewer replicas than the floor", func(w *World) { w.Policy, w.Replicas, w.Pods = &Policy{5, 60}, 3, crew("ooo") }, "", Balanced, "3 pods, and the floor is 5: all on-demand"},
		{"nothing is asked for", func(w *World) { w.Policy = nil }, "", "", ""},
		{"invalid: the last good setting stays", func(w *World) { w.Problem, w.Pods = "x", crew("oososooooo") }, "evict web-9 to spot", Invalid, "the last good setting stays: at least 2 on-demand, 60% spot"},
		{"invalid from the start", func(w *World) { w.Problem, w.Policy, w.Pods = "x", nil, crew("oooooooooo") }, "", Invalid, "nothing is moved"},
		{"a number without a pod tries first", func(w *World) { w.Pods, w.Budget.Step = crew("ooooooooo"), 5 }, "", Rebalancing, "one pod tries spot nodes first"},
		{"a pod that has no node disturbs no other", func(w *World) {
			w.Pods[9], w.Now, w.Budget = crew("oooooooooO")[9], noon.Add(30*time.Second), Budget{}
		}, "delete web-9 to spot", Rebalancing, "moving 1 pod"},
		{"a pod that does not get Ready may be the one to go", func(w *World) { w.Pods[9].Node, w.Pods[9].Phase = OnDemand, Starting }, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"but not while another one is away", func(w *World) {
			w.Pods[9].Node, w.Pods[9].Phase, w.Pods[0].Phase = OnDemand, Starting, Starting
		}, "", Rebalancing, "waiting: 2 pods of 10 away"},
		{"scaled to nothing", func(w *World) { w.Replicas = 0 }, "", Rebalancing, "waiting: 10 pods more than the replicas"},
		{"no replicas", func(w *World) { w.Replicas, w.Pods = 0, nil }, "", Balanced, "0 on-demand and 0 spot"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			world := quiet(sixty, 10, right())
			c.change(&world)
			expect(t, world, c.moves, c.word, c.says)
		})
	}
}

// The cost of a decision grows with the pods, and no faster.
func BenchmarkNext(b *testing.B) {
	for _, size := range []int{1_000, 10_000} {
		world := quiet(sixty, size, crew(strings.Repeat(ten, size/len(ten))))
		b.Run(fmt.Sprintf("%d pods", size), func(b *testing.B) {
			for b.Loop() {
				Next(world)
			}
		})
	}
}

func expect(t *testing.T, world World, moves string, word Word, says string) {
	t.Helper()
	decision := Next(world)
	var got []string
	for _, move := range decision.Moves {
		got = append(got, fmt.Sprintf("%s %s to %s", move.Verb, move.Pod, move.To))
	}
	if strings.Join(got, ", ") != moves {
		t.Errorf("moves %q, want %q", strings.Join(got, ", "), moves)
	}
	if decision.Word != word || !strings.Contains(decision.Reason, says) {
		t.Errorf("says %s: %s, want %s: %s", decision.Word, decision.Reason, word, says)
	}
	slices.Reverse(world.Pods)
	if again := Next(world); fmt.Sprint(again) != fmt.Sprint(decision) {
		t.Errorf("the order of pods matters: %v, then %v", decision, again)
	}
}

// Nodes that go as fast as they come are no room, unless a pod that may stay shows otherwise.
func TestWhoMakesAClassCountAsShort(t *testing.T) {
	for _, c := range []struct {
		reason string
		change func(*World)
		want   Standing
	}{
		{"all that are there leave, and one of them has just come", func(w *World) { w.Pods[9].Created = w.Now }, Closed},
		{"another may stay", func(w *World) { w.Pods[9].Created, w.Pods[8].Doomed = w.Now, false }, Open},
		{"they have been there for long", func(*World) {}, Open},
		{"the node of the one that has just come is silent", func(w *World) { w.Pods[9].Created, w.Pods[9].Lost = w.Now, true }, Open},
		{"a failure of yesterday, and a pod came since", func(w *World) { w.Spot.Failed, w.Pods[8].Doomed = noon.Add(-time.Hour), false }, Open},
		{"a new node is tried when a try and the way back have had their cooldowns", func(w *World) {
			w.Pods[9].Created, w.Spot.Returned = w.Now.Add(-10*time.Second), w.Now
		}, Closed},
	} {
		world := quiet(sixty, 10, right())
		for n := range world.Pods {
			world.Pods[n].Doomed = world.Pods[n].Node == Spot
		}
		c.change(&world)
		decision := Next(world)
		if got := decision.Shortage.Spot; got.Standing != c.want || c.want == Open && !got.Failed.IsZero() || !got.Missed.IsZero() {
			t.Errorf("%s: %+v", c.reason, got)
		}
	}
}

func TestShortage(t *testing.T) {
	late := func(w *World) { w.Now = noon.Add(61 * time.Second) }
	fallen := func(w *World) { w.Pods = crew("oososooooo") } // 3, 6, 8 and 9 are not where they belong
	for _, c := range []struct {
		reason string
		change func(*World)
		moves  string
		word   Word
		says   string
	}{
		{"a pending pod is given time", func(w *World) { w.Pods[9], w.Now = crew("oooooooooS")[9], noon.Add(59*time.Second) }, "", Rebalancing, "waiting for 1 pod"},
		{"then it falls back", func(w *World) { w.Pods[9] = crew("oooooooooS")[9]; late(w) }, "delete web-9 to on-demand", SpotUnavailable, "1 pod short on spot nodes, which have no room"},
		{"at once where no provisioner adds nodes", func(w *World) {
			w.Pods[9], w.Now, w.Spot = crew("oooooooooS")[9], noon.Add(time.Second), Supply{Static: true}
		}, "delete web-9 to on-demand", SpotUnavailable, "no room"},
		{"behind a gate it waits for no node", func(w *World) { w.Pods[9] = crew("oooooooooS")[9]; w.Pods[9].Gated = true; late(w) }, "", Rebalancing, "waiting: scheduling gates hold 1 pod back"},
		{"and counts as away, however long", func(w *World) {
			w.Pods = crew("oososooooS")
			w.Pods[9].Gated = true
		}, "", Rebalancing, "waiting: 1 pod of 10 away"},
		{"its time begins when the gate is gone", func(w *World) {
			w.Pods[9] = crew("oooooooooS")[9]
			w.Pods[9].Since, w.Now = noon.Add(time.Hour), noon.Add(time.Hour+59*time.Second)
		}, "", Rebalancing, "waiting for 1 pod"},
		{"and ends", func(w *World) {
			w.Pods[9] = crew("oooooooooS")[9]
			w.Pods[9].Since, w.Now = noon.Add(time.Hour), noon.Add(time.Hour+60*time.Second)
		}, "delete web-9 to on-demand", SpotUnavailable, "no room"},
		{"a rollout: the floor of the new ReplicaSet waits, whatever seat is free", func(w *World) {
			w.Replicas, w.Pods, w.Hold = 4, append(crew("oos"), crew("O")...), "a rollout is in progress"
			w.Pods[3].Name, w.Pods[3].Set = "web-new", "new"
			late(w)
		}, "", Rebalancing, "waiting: a rollout is in progress"},
		{"Ready pods stay though spot is gone", func(w *World) { w.Spot = Supply{Static: true} }, "", Balanced, "as wanted"},
		{"a fallback asks no budget and no rollout", func(w *World) {
			w.Pods[9], w.Budget, w.Hold = crew("oooooooooS")[9], Budget{}, "a rollout is in progress"
			late(w)
		}, "delete web-9 to on-demand", SpotUnavailable, "no room"},
		{"spot failed lately: left alone", func(w *World) { fallen(w); w.Spot.Failed = w.Now.Add(-time.Minute) }, "", SpotUnavailable, "4 pods short on spot nodes, which have no room"},
		{"spot is back: one pod tries", func(w *World) {
			fallen(w)
			w.Spot.Failed, w.Spot.Returned, w.Budget.Step = w.Now.Add(-time.Minute), w.Now, 5
		}, "evict web-9 to spot", SpotUnavailable, "number 9 tries whether there is room again"},
		{"a node came just before spot failed: one pod tries", func(w *World) {
			fallen(w)
			w.Spot.Failed, w.Spot.Returned, w.Budget.Step = w.Now.Add(-time.Minute), w.Now.Add(-65*time.Second), 5
		}, "evict web-9 to spot", SpotUnavailable, "number 9 tries whether there is room again"},
		{"a node came in good time, and spot failed: left alone", func(w *World) {
			fallen(w)
			w.Spot.Failed, w.Spot.Returned = w.Now.Add(-time.Minute), w.Now.Add(-71*time.Second)
		}, "", SpotUnavailable, "4 pods short on spot nodes, which have no room"},
		{"spot failed long ago: one pod tries", func(w *World) { fallen(w); w.Spot.Failed, w.Budget.Step = w.Now.Add(-10*time.Minute), 5 }, "evict web-9 to spot", SpotUnavailable, "number 9 tries"},
		{"while one tries the others stay", func(w *World) {
			fallen(w)
			w.Spot.Failed, w.Budget.Step = w.Now.Add(-11*time.Minute), 5
			w.Pods[9] = Pod{Name: "web-9", Number: 9, Made: Spot, Created: w.Now.Add(-30 * time.Second)}
		}, "", SpotUnavailable, "number 9 tries"},
		{"it has arrived: the others follow in steps", func(w *World) {
			fallen(w)
			w.Spot.Failed, w.Budget.Step = w.Now.Add(-11*time.Minute), 2
			w.Pods[9] = Pod{Name: "web-9", Number: 9, Made: Spot, Node: Spot, Phase: Ready, Created: w.Now.Add(-30 * time.Second)}
		}, "evict web-8 to spot, evict web-6 to spot", Rebalancing, "moving 2 pods"},
		{"on-demand is short: above the floor spot helps out", func(w *World) { w.Pods[5] = crew("oosssO")[5]; late(w) }, "delete web-5 to spot", Rebalancing, "moving 1 pod"},
		{"on-demand is short: the floor waits", func(w *World) { w.Pods[1] = crew("oO")[1]; late(w) }, "", Rebalancing, "1 pod pending, and there is no room where they may go"},
		{"both are short: nothing goes back and forth", func(w *World) {
			w.Pods[9] = crew("oooooooooS")[9]
			w.OnDemand.Failed = noon
			late(w)
		}, "", SpotUnavailable, "no room"},
		{"nor does one that was made without us", func(w *World) { w.Pods = crew("oOsssooooo"); w.Pods[1].Made, w.Pods[1].Number = "", Unnumbered }, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
		{"both were short: one that waits in vain tries the other", func(w *World) {
			w.Pods[9], w.Pods[8] = crew("oooooooooS")[9], crew("ooooooooS")[8]
			w.Now = noon.Add(2 * time.Minute)
			w.OnDemand.Failed = w.Now.Add(-11 * time.Minute)
			w.Pods[0].Created, w.Pods[1].Created = noon.Add(-time.Hour), noon.Add(-time.Hour)
			w.Pods[5].Created, w.Pods[7].Created = noon.Add(-time.Hour), noon.Add(-time.Hour)
		}, "delete web-8 to on-demand", SpotUnavailable, "no room"},
		{"one Pending pod does not stop the others", func(w *World) { w.Pods = crew("oOsssooooo") }, "evict web-9 to spot", Rebalancing, "moving 1 pod"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			world := quiet(sixty, 10, right())
			c.change(&world)
			expect(t, world, c.moves, c.word, c.says)
		})
	}
}

func TestPlace(t *testing.T) {
	closed, tries := Gate{Standing: Closed, Probe: Unnumbered}, Gate{Standing: Probing, Probe: 9}
	for _, c := range []struct {
		reason   string
		shortage Shortage
		number   int
		want     Class
	}{
		{"nothing is short", Shortage{}, 9, Spot},
		{"spot is short", Shortage{Spot: closed}, 9, OnDemand},
		{"this one tries", Shortage{Spot: tries}, 9, Spot},
		{"another one tries", Shortage{Spot: tries}, 8, OnDemand},
		{"on-demand is short", Shortage{OnDemand: closed}, 5, Spot},
		{"the floor stays", Shortage{OnDemand: closed}, 1, OnDemand},
		{"both are short", Shortage{Spot: closed, OnDemand: closed}, 9, Spot},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := c.shortage.Place(sixty, c.number); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestWhenToLookAgain(t *testing.T) {
	world := quiet(sixty, 10, right())
	if again := Next(world).Again; !again.IsZero() {
		t.Errorf("balanced looks again at %s", again)
	}
	world.Pods[9] = crew("oooooooooS")[9]
	world.Now = noon.Add(20 * time.Second)
	if again := Next(world).Again; !again.Equal(noon.Add(time.Minute)) {
		t.Errorf("a pending pod: %s", again)
	}
	world.Now = noon.Add(2 * time.Minute)
	decision := Next(world)
	if failed := decision.Shortage.Spot.Failed; !failed.Equal(noon.Add(time.Minute)) {
		t.Errorf("failed at %s", failed)
	}
	if !decision.Again.Equal(noon.Add(11 * time.Minute)) {
		t.Errorf("spot is tried again at %s", decision.Again)
	}
	world.Pods, world.LastMove = crew("oososooooo"), world.Now.Add(-time.Second)
	if again := Next(world).Again; !again.Equal(world.Now.Add(9 * time.Second)) {
		t.Errorf("cooldown: %s", again)
	}
}

func TestStatusText(t *testing.T) {
	for want, decision := range map[string]Decision{
		"Balanced": {Word: Balanced}, "": {}, "Invalid: no": {Word: Invalid, problem: "no"},
	} {
		if got := decision.Status(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
