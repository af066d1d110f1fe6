package split

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// cluster simulates the scheduler, the ReplicaSet, the disruption controller and admission.
type cluster struct {
	Snapshot
	numbers       *Numbers
	maxPods       map[Class]int // how many pods a class can hold
	minAvailable  int           // of a disruption budget, 0 for none
	unschedulable string        // the pod that no node can take
	created       int
	decision      Decision
	moveCount     int
}

func newCluster(policy Policy, replicas int, pods []Pod) *cluster {
	world := newSnapshot(policy, replicas, pods)
	return &cluster{Snapshot: world, numbers: NewNumbers(time.Minute), maxPods: map[Class]int{Spot: 1000, OnDemand: 1000}}
}

const tickInterval = 5 * time.Second

// tick advances five seconds, and lets the operator decide once.
func (c *cluster) tick() {
	c.advance()
	c.decide()
}

func (c *cluster) advance() {
	c.Now = c.Now.Add(tickInterval)
	c.numbers.SetPods(*c.Policy, c.Replicas, c.Pods)
	c.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(pod Pod) bool { return pod.Phase == Terminating })
	c.schedule()
	c.replicate()
	c.Budget.Allowed = NoLimit
	if c.minAvailable > 0 {
		c.Budget.Allowed = max(0, c.countReady("")-c.minAvailable)
	}
}

func (c *cluster) decide() {
	c.decision = Decide(c.Snapshot)
	c.Spot.NoCapacitySince, c.OnDemand.NoCapacitySince = c.decision.Classes.Spot.NoCapacitySince, c.decision.Classes.OnDemand.NoCapacitySince
	for _, move := range c.decision.Moves {
		n := slices.IndexFunc(c.Pods, func(pod Pod) bool { return pod.Name == move.Pod })
		c.Pods[n].Phase = Terminating
		c.moveCount++
		c.LastMove = c.Now
	}
}

func (c *cluster) schedule() {
	for n := range c.Pods {
		pod := &c.Pods[n]
		switch {
		case pod.Phase == Starting:
			pod.Phase = Ready
		case pod.Phase == Pending && pod.Name != c.unschedulable && c.countOn(pod.AssignedClass) < c.maxPods[pod.AssignedClass]:
			pod.Phase, pod.NodeClass = Starting, pod.AssignedClass
		}
	}
}

func (c *cluster) replicate() {
	live := len(c.Pods)
	for ; live < c.Replicas; live++ {
		c.numbers.SetPods(*c.Policy, c.Replicas, c.Pods)
		c.created++
		name := fmt.Sprintf("new-%d", c.created)
		number := c.numbers.Reserve(name, c.Now)
		c.Pods = append(c.Pods, Pod{Name: name, Number: number, AssignedClass: c.decision.Classes.ClassFor(*c.Policy, number), Created: c.Now})
	}
	slices.SortFunc(c.Pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(b.Phase, a.Phase), cmp.Compare(a.Number, b.Number)) })
	for n := range max(0, live-c.Replicas) {
		c.Pods[live-1-n].Phase = Terminating
	}
}

func (c *cluster) countOn(class Class) int {
	total := 0
	for _, pod := range c.Pods {
		if pod.NodeClass == class && pod.Phase != Terminating {
			total++
		}
	}
	return total
}

// countReady counts the Ready pods of a class, "" for all.
func (c *cluster) countReady(class Class) int {
	total := 0
	for _, pod := range c.Pods {
		if pod.Phase == Ready && (class == "" || pod.NodeClass == class) {
			total++
		}
	}
	return total
}

// tickAndCheck ticks, and checks the promises about the decision.
func (c *cluster) tickAndCheck(t *rapid.T) {
	c.advance()
	ready, onDemand := c.countReady(""), c.countReady(OnDemand)
	c.decide()
	evictions := c.countEvictions(t)
	if again := Decide(c.Snapshot); len(again.Moves) > 0 {
		t.Fatalf("decided %v, then %v", c.decision.Moves, again.Moves)
	}
	if evictions > max(1, c.Budget.Step) || c.Budget.Allowed != NoLimit && evictions > c.Budget.Allowed {
		t.Fatalf("%d evicted, step %d, allowed %d", evictions, c.Budget.Step, c.Budget.Allowed)
	}
	if evictions > 0 && c.countReady("") < c.minAvailable {
		t.Fatalf("%d Ready, fewer than %d, and before %d", c.countReady(""), c.minAvailable, ready)
	}
	if floor := min(c.Policy.MinOnDemand, c.Replicas); evictions > 0 && c.countReady(OnDemand) < min(floor, onDemand) {
		t.Fatalf("%d Ready on-demand, the floor is %d", c.countReady(OnDemand), floor)
	}
}

// countEvictions counts evictions, and checks that each leads towards the wanted split.
func (c *cluster) countEvictions(t *rapid.T) int {
	total := 0
	for _, move := range c.decision.Moves {
		if move.Verb != Evict {
			continue
		}
		total++
		if wanted := c.decision.Desired; c.countOn(Spot) >= wanted.Spot && move.To == Spot ||
			c.countOn(OnDemand) >= wanted.OnDemand && move.To == OnDemand {
			t.Fatalf("%v leads away from %s", move, wanted)
		}
	}
	return total
}

func (c *cluster) expectBalanced(t *rapid.T, ticks int) {
	for range ticks {
		c.tickAndCheck(t)
		if c.decision.Status == Balanced && c.countReady("") == c.Replicas {
			c.expectStable(t)
			return
		}
	}
	t.Fatalf("not balanced after %d ticks: %s, wanted %s: %s: %s\n%v", ticks, c.decision.Current, c.decision.Desired, c.decision.Status,
		c.decision.Reason, c.Pods)
}

func (c *cluster) expectStable(t *rapid.T) {
	for range 5 {
		c.tickAndCheck(t)
		if len(c.decision.Moves) > 0 || c.decision.Status != Balanced {
			t.Fatalf("deciding again: %v, %s", c.decision.Moves, c.decision.Reason)
		}
	}
}

// drawPods generates pods of any origin: from before us, under another policy, with gaps and duplicates.
func drawPods(t *rapid.T, replicas int) []Pod {
	pods := make([]Pod, rapid.IntRange(0, replicas+3).Draw(t, "pods"))
	for n := range pods {
		class := rapid.SampledFrom([]Class{Spot, OnDemand}).Draw(t, "class")
		pods[n] = Pod{Name: fmt.Sprintf("old-%d", n), Number: rapid.IntRange(-1, replicas+3).Draw(t, "number"), AssignedClass: class,
			NodeClass: class, Phase: Ready, Created: noon}
	}
	return pods
}

func drawCluster(t *rapid.T) *cluster {
	replicas := rapid.IntRange(1, 25).Draw(t, "replicas")
	c := newCluster(drawPolicy(t), replicas, drawPods(t, replicas))
	c.Budget.Step = rapid.IntRange(0, 4).Draw(t, "step")
	c.minAvailable = rapid.IntRange(0, replicas-1).Draw(t, "minAvailable")
	return c
}

func TestDecideConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		c.expectBalanced(t, 400)
		policy := drawPolicy(t)
		c.Policy = &policy
		c.expectBalanced(t, 400)
	})
}

func TestScalingMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(drawPolicy(t), 10, nil)
		for range 6 {
			c.expectBalanced(t, 20)
			c.Replicas = rapid.IntRange(0, 60).Draw(t, "replicas")
		}
		if c.moveCount > 0 {
			t.Fatalf("%d pods were moved", c.moveCount)
		}
	})
}

func TestSpotVanishesAndReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		c.maxPods[Spot] = rapid.IntRange(0, 5).Draw(t, "room on spot")
		for range 300 {
			c.tickAndCheck(t)
			for _, pod := range c.Pods {
				if pod.Phase == Pending && c.Now.Sub(pod.Created) > c.PendingDeadline+tickInterval {
					t.Fatalf("pending since %s: %v", c.Now.Sub(pod.Created), pod)
				}
			}
		}
		c.maxPods[Spot], c.Spot.NodeAvailableAt = 1000, c.Now
		c.expectBalanced(t, 400)
	})
}

// Spot nodes come and are tainted at once, forever: no more than one pod is away at a time, and each attempt takes a deadline.
func TestHostileTaints(t *testing.T) {
	c := newCluster(policy60, 10, podsOnClasses("oooooooooo"))
	c.maxPods[Spot] = 0
	for range 720 { // an hour
		c.Spot.NodeAvailableAt = c.Now
		c.tick()
		if c.countReady("") < 9 || len(c.decision.Moves) > 1 {
			t.Fatalf("%d Ready, %v", c.countReady(""), c.decision.Moves)
		}
	}
	if c.moveCount > 2*60 {
		t.Errorf("%d moves in an hour", c.moveCount)
	}
}

// Spot nodes take pods and get a notice at once, while new ones keep coming: for five minutes no replica is moved more than once per
// cooldown, no more than one pod is away, and there are never more pods on spot nodes than wanted.
func TestHostileNotices(t *testing.T) {
	for _, letters := range []string{"oooooooooo", tenClasses} {
		c := newCluster(policy60, 10, podsOnClasses(letters))
		c.Cooldown = 2 * tickInterval
		var moves []time.Time
		for range int(5 * time.Minute / tickInterval) {
			c.advance()
			c.Spot.NodeAvailableAt = c.Now
			for n := range c.Pods {
				c.Pods[n].NodeTerminating = c.Pods[n].NodeClass == Spot && c.Pods[n].Created.After(noon)
			}
			c.decide()
			if c.countReady("") < 9 || c.countOn(Spot) > 6 || len(c.decision.Moves) > 1 {
				t.Fatalf("%s: %d Ready, %v", letters, c.countReady(""), c.decision.Moves)
			}
			if len(c.decision.Moves) > 0 {
				moves = append(moves, c.Now)
			}
		}
		for n := 1; n < len(moves); n++ {
			if pause := moves[n].Sub(moves[n-1]); pause < c.Cooldown {
				t.Errorf("%s: moves within %s", letters, pause)
			}
		}
		if tries := letters != tenClasses; tries != (len(moves) > 10) {
			t.Errorf("%s: %d moves", letters, len(moves))
		}
	}
}

// The same with all replicas of spot nodes there from the start: they leave, those that come after them leave, and from then on one
// tries at a time.
func TestHostileNoticesToAll(t *testing.T) {
	c := newCluster(policy60, 10, podsOnClasses(tenClasses))
	waves := 0
	for range int(5 * time.Minute / tickInterval) {
		c.advance()
		c.Spot.NodeAvailableAt = c.Now
		for n := range c.Pods {
			c.Pods[n].NodeTerminating = c.Pods[n].NodeClass == Spot
		}
		c.decide()
		if len(c.decision.Moves) > 1 {
			waves++
		}
	}
	if singles := c.moveCount - 6*waves; waves != 2 || singles > int(5*time.Minute/c.Cooldown) {
		t.Errorf("%d waves and %d moves more", waves, singles)
	}
}

// A pod that no node can take stays Pending in either class while the others are put right.
func TestOnePendingPodDoesNotStopRebalancing(t *testing.T) {
	c := newCluster(policy60, 10, podsOnClasses("Oooooooooo"))
	c.unschedulable = "web-0"
	for range 200 {
		c.tick()
	}
	if c.countOn(Spot) != 6 || c.countOn(OnDemand) != 3 {
		t.Errorf("%s, %s: %s", c.decision.Current, c.decision.Status, c.decision.Reason)
	}
}

// describe prints a decision.
func (c *cluster) describe() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, wanted %s  %s: %s\n", c.decision.Current, c.decision.Desired, c.decision.StatusText(), c.decision.Reason)
	for _, move := range c.decision.Moves {
		fmt.Fprintf(&text, "         %s %s (number %d) from %s to %s: %s\n", move.Verb, move.Pod, move.Number, move.From, move.To, move.Reason)
	}
	return text.String()
}
