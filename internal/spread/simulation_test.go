package spread

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
	World
	numbers      *Numbers
	room         map[Class]int // how many pods a class can hold
	minAvailable int           // of a disruption budget, 0 for none
	unfit        string        // the pod that no node can take
	made         int
	decision     Decision
	moved        int
}

func begin(policy Policy, replicas int, pods []Pod) *cluster {
	world := quiet(policy, replicas, pods)
	return &cluster{World: world, numbers: NewNumbers(time.Minute), room: map[Class]int{Spot: 1000, OnDemand: 1000}}
}

const beat = 5 * time.Second

// tick advances five seconds, and lets the operator decide once.
func (c *cluster) tick() {
	c.live()
	c.decide()
}

func (c *cluster) live() {
	c.Now = c.Now.Add(beat)
	c.numbers.See(*c.Policy, c.Replicas, c.Pods)
	c.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(pod Pod) bool { return pod.Phase == Terminating })
	c.schedule()
	c.replicate()
	c.Budget.Allowed = NoLimit
	if c.minAvailable > 0 {
		c.Budget.Allowed = max(0, c.ready("")-c.minAvailable)
	}
}

func (c *cluster) decide() {
	c.decision = Next(c.World)
	c.Spot.Failed, c.OnDemand.Failed = c.decision.Shortage.Spot.Failed, c.decision.Shortage.OnDemand.Failed
	for _, move := range c.decision.Moves {
		n := slices.IndexFunc(c.Pods, func(pod Pod) bool { return pod.Name == move.Pod })
		c.Pods[n].Phase = Terminating
		c.moved++
		c.LastMove = c.Now
	}
}

func (c *cluster) schedule() {
	for n := range c.Pods {
		pod := &c.Pods[n]
		switch {
		case pod.Phase == Starting:
			pod.Phase = Ready
		case pod.Phase == Pending && pod.Name != c.unfit && c.on(pod.Made) < c.room[pod.Made]:
			pod.Phase, pod.Node = Starting, pod.Made
		}
	}
}

func (c *cluster) replicate() {
	live := len(c.Pods)
	for ; live < c.Replicas; live++ {
		c.numbers.See(*c.Policy, c.Replicas, c.Pods)
		c.made++
		name := fmt.Sprintf("new-%d", c.made)
		number := c.numbers.Take(name, c.Now)
		c.Pods = append(c.Pods, Pod{Name: name, Number: number, Made: c.decision.Shortage.Place(*c.Policy, number), Created: c.Now})
	}
	slices.SortFunc(c.Pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(b.Phase, a.Phase), cmp.Compare(a.Number, b.Number)) })
	for n := range max(0, live-c.Replicas) {
		c.Pods[live-1-n].Phase = Terminating
	}
}

func (c *cluster) on(class Class) int {
	total := 0
	for _, pod := range c.Pods {
		if pod.Node == class && pod.Phase != Terminating {
			total++
		}
	}
	return total
}

// ready counts the Ready pods of a class, "" for all.
func (c *cluster) ready(class Class) int {
	total := 0
	for _, pod := range c.Pods {
		if pod.Phase == Ready && (class == "" || pod.Node == class) {
			total++
		}
	}
	return total
}

// careful ticks, and checks the promises about the decision.
func (c *cluster) careful(t *rapid.T) {
	c.live()
	ready, onDemand := c.ready(""), c.ready(OnDemand)
	c.decide()
	took := c.evicted(t)
	if again := Next(c.World); len(again.Moves) > 0 {
		t.Fatalf("decided %v, then %v", c.decision.Moves, again.Moves)
	}
	if took > max(1, c.Budget.Step) || c.Budget.Allowed != NoLimit && took > c.Budget.Allowed {
		t.Fatalf("%d evicted, step %d, allowed %d", took, c.Budget.Step, c.Budget.Allowed)
	}
	if took > 0 && c.ready("") < c.minAvailable {
		t.Fatalf("%d Ready, fewer than %d, and before %d", c.ready(""), c.minAvailable, ready)
	}
	if floor := min(c.Policy.MinOnDemand, c.Replicas); took > 0 && c.ready(OnDemand) < min(floor, onDemand) {
		t.Fatalf("%d Ready on-demand, the floor is %d", c.ready(OnDemand), floor)
	}
}

// evicted counts evictions, and checks that each leads towards the wanted split.
func (c *cluster) evicted(t *rapid.T) int {
	total := 0
	for _, move := range c.decision.Moves {
		if move.Verb != Evict {
			continue
		}
		total++
		if wanted := c.decision.Desired; c.on(Spot) >= wanted.Spot && move.To == Spot || c.on(OnDemand) >= wanted.OnDemand && move.To == OnDemand {
			t.Fatalf("%v leads away from %s", move, wanted)
		}
	}
	return total
}

func (c *cluster) settles(t *rapid.T, ticks int) {
	for range ticks {
		c.careful(t)
		if c.decision.Word == Balanced && c.ready("") == c.Replicas {
			c.rests(t)
			return
		}
	}
	t.Fatalf("not balanced after %d ticks: %s, wanted %s: %s: %s\n%v", ticks, c.decision.Current, c.decision.Desired, c.decision.Word, c.decision.Reason, c.Pods)
}

func (c *cluster) rests(t *rapid.T) {
	for range 5 {
		c.careful(t)
		if len(c.decision.Moves) > 0 || c.decision.Word != Balanced {
			t.Fatalf("deciding again: %v, %s", c.decision.Moves, c.decision.Reason)
		}
	}
}

// anyhow generates pods of any origin: from before us, under another policy, with gaps and duplicates.
func anyhow(t *rapid.T, replicas int) []Pod {
	pods := make([]Pod, rapid.IntRange(0, replicas+3).Draw(t, "pods"))
	for n := range pods {
		class := rapid.SampledFrom([]Class{Spot, OnDemand}).Draw(t, "class")
		pods[n] = Pod{Name: fmt.Sprintf("old-%d", n), Number: rapid.IntRange(-1, replicas+3).Draw(t, "number"), Made: class, Node: class, Phase: Ready, Created: noon}
	}
	return pods
}

func someCluster(t *rapid.T) *cluster {
	replicas := rapid.IntRange(1, 25).Draw(t, "replicas")
	c := begin(somePolicy(t), replicas, anyhow(t, replicas))
	c.Budget.Step = rapid.IntRange(0, 4).Draw(t, "step")
	c.minAvailable = rapid.IntRange(0, replicas-1).Draw(t, "minAvailable")
	return c
}

func TestNextConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := someCluster(t)
		c.settles(t, 400)
		policy := somePolicy(t)
		c.Policy = &policy
		c.settles(t, 400)
	})
}

func TestScalingMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := begin(somePolicy(t), 10, nil)
		for range 6 {
			c.settles(t, 20)
			c.Replicas = rapid.IntRange(0, 60).Draw(t, "replicas")
		}
		if c.moved > 0 {
			t.Fatalf("%d pods were moved", c.moved)
		}
	})
}

func TestSpotVanishesAndReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := someCluster(t)
		c.room[Spot] = rapid.IntRange(0, 5).Draw(t, "room on spot")
		for range 300 {
			c.careful(t)
			for _, pod := range c.Pods {
				if pod.Phase == Pending && c.Now.Sub(pod.Created) > c.PendingDeadline+beat {
					t.Fatalf("pending since %s: %v", c.Now.Sub(pod.Created), pod)
				}
			}
		}
		c.room[Spot], c.Spot.Returned = 1000, c.Now
		c.settles(t, 400)
	})
}

// Spot nodes come and are tainted at once, forever: no more than one pod is away at a time, and each attempt takes a deadline.
func TestHostileTaints(t *testing.T) {
	c := begin(sixty, 10, crew("oooooooooo"))
	c.room[Spot] = 0
	for range 720 { // an hour
		c.Spot.Returned = c.Now
		c.tick()
		if c.ready("") < 9 || len(c.decision.Moves) > 1 {
			t.Fatalf("%d Ready, %v", c.ready(""), c.decision.Moves)
		}
	}
	if c.moved > 2*60 {
		t.Errorf("%d moves in an hour", c.moved)
	}
}

// Spot nodes take pods and get a notice at once, while new ones keep coming: for five minutes no replica is moved more than once per
// cooldown, no more than one pod is away, and there are never more pods on spot nodes than wanted.
func TestHostileNotices(t *testing.T) {
	for _, letters := range []string{"oooooooooo", ten} {
		c := begin(sixty, 10, crew(letters))
		c.Cooldown = 2 * beat
		var moves []time.Time
		for range int(5 * time.Minute / beat) {
			c.live()
			c.Spot.Returned = c.Now
			for n := range c.Pods {
				c.Pods[n].Doomed = c.Pods[n].Node == Spot && c.Pods[n].Created.After(noon)
			}
			c.decide()
			if c.ready("") < 9 || c.on(Spot) > 6 || len(c.decision.Moves) > 1 {
				t.Fatalf("%s: %d Ready, %v", letters, c.ready(""), c.decision.Moves)
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
		if tries := letters != ten; tries != (len(moves) > 10) {
			t.Errorf("%s: %d moves", letters, len(moves))
		}
	}
}

// The same with all replicas of spot nodes there from the start: they leave, those that come after them leave, and from then on one
// tries at a time.
func TestHostileNoticesToAll(t *testing.T) {
	c := begin(sixty, 10, crew(ten))
	waves := 0
	for range int(5 * time.Minute / beat) {
		c.live()
		c.Spot.Returned = c.Now
		for n := range c.Pods {
			c.Pods[n].Doomed = c.Pods[n].Node == Spot
		}
		c.decide()
		if len(c.decision.Moves) > 1 {
			waves++
		}
	}
	if singles := c.moved - 6*waves; waves != 2 || singles > int(5*time.Minute/c.Cooldown) {
		t.Errorf("%d waves and %d moves more", waves, singles)
	}
}

// A pod that no node can take stays Pending in either class while the others are put right.
func TestOnePendingPodDoesNotStopRebalancing(t *testing.T) {
	c := begin(sixty, 10, crew("Oooooooooo"))
	c.unfit = "web-0"
	for range 200 {
		c.tick()
	}
	if c.on(Spot) != 6 || c.on(OnDemand) != 3 {
		t.Errorf("%s, %s: %s", c.decision.Current, c.decision.Word, c.decision.Reason)
	}
}

// line prints a decision.
func (c *cluster) line() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, wanted %s  %s: %s\n", c.decision.Current, c.decision.Desired, c.decision.Status(), c.decision.Reason)
	for _, move := range c.decision.Moves {
		fmt.Fprintf(&text, "         %s %s (number %d) from %s to %s: %s\n", move.Verb, move.Pod, move.Number, move.From, move.To, move.Reason)
	}
	return text.String()
}
