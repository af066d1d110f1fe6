package hostile

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// An attack goes on until its context ends.
type attack struct {
	run   func(ctx context.Context, s *scene)
	tally []tally
}

// A tally is what an attack has done, and how much of it makes an attack worth the name.
type tally struct {
	what  string
	done  *atomic.Int64
	least int64
}

// attacks are all of them by name.
var attacks = map[string]attack{
	"agents": speech, "posts": posts, "connections": connections, "objects": objects, "open connections": {floodOfConnections, nil},
}

// under does something while others attack, and lets them attack until they have done their least.
func (s *scene) under(ctx context.Context, something func(), names ...string) {
	GinkgoHelper()
	hostile := s.startAttackers(names)
	defer func() { Expect(hostile.stop()).To(Succeed()) }()
	something()
	for _, name := range names {
		for _, each := range attacks[name].tally {
			Eventually(hostile.count).WithContext(ctx).WithArguments(each.what).WithTimeout(3*time.Minute).Should(BeNumerically(">=", each.least), each.what)
			AddReportEntry(each.what, ReportEntryVisibilityAlways, hostile.count(each.what))
		}
	}
}

// repeat calls functions in turn, with a pause between two calls, until the context ends.
func repeat(ctx context.Context, pause time.Duration, calls ...func(n int)) {
	for n := 0; ctx.Err() == nil; n++ {
		calls[n%len(calls)](n)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// speech has every hostile program say everything that the link can encode.
var speech = attack{func(ctx context.Context, s *scene) {
	var all sync.WaitGroup
	for n, pod := range s.pods() {
		all.Go(func() { pod.speak(ctx, s, rand.New(rand.NewPCG(1, uint64(n)))) })
	}
	all.Wait()
}, []tally{{"messages of hostile programs", &said, 5000}, {"scripts that were said", &scripts, 50}}}

// Counts of what hostile programs have sent.
var said, scripts atomic.Int64

// breath is the pause between two scripts. The machine has to run the hostile programs, too, and they are not what is judged.
const breath = 100 * time.Millisecond

// speak sends all scripts again and again. What the operator makes of a script is its own business.
func (p *intruderPod) speak(ctx context.Context, s *scene, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		knows, err := s.knowledge(ctx)
		if err != nil {
			continue // the context has ended
		}
		hellos := p.hellos(knows)
		limited := func(what script) {
			turn, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_ = p.say(turn, what) // a refusal is what honest swarms hope for
			scripts.Add(1)
			<-time.After(breath)
		}
		for range 8 {
			limited(greet(pick(r, hellos)))
		}
		for _, what := range []script{
			p.accuse(knows), p.strays(p.Config.Namespace), p.strays(p.Config.Namespace, s.honest[0].Namespace), p.oversize(knows), p.malformed(r),
			generator{r, knows, p}.script(300),
		} {
			limited(what)
		}
		turn, cancel := context.WithTimeout(ctx, time.Second)
		p.handBack(turn)
		cancel()
	}
}

// knowledge is what users with the right to view may see, and more.
func (s *scene) knowledge(ctx context.Context) (known, error) {
	reign, err := s.leader.reign(ctx)
	if err != nil {
		return known{}, err
	}
	term, err := strconv.ParseInt(reign.stored, 10, 64)
	if err != nil {
		return known{}, err
	}
	tasks, err := s.honestTasks(ctx)
	if err != nil {
		return known{}, err
	}
	slices.SortStableFunc(tasks, func(a, b v1alpha1.Task) int { return finality(a) - finality(b) })
	knows := known{term: term}
	for _, task := range tasks[:min(len(tasks), 12)] {
		knows.victims = append(knows.victims, &linkv1.Attempt{
			Namespace: task.Namespace, Task: task.Name, TaskUid: string(task.UID), Attempt: max(task.Status.Attempt, 1), Epoch: task.Status.Epoch,
		})
	}
	return knows, nil
}

// finality sorts tasks that are not finished before the others.
func finality(task v1alpha1.Task) int {
	if task.Status.Phase.Final() {
		return 1
	}
	return 0
}
