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

// An attackSpec runs until its context ends.
type attackSpec struct {
	run     func(ctx context.Context, s *environment)
	metrics []attackMetric
}

// An attackMetric counts the actions of an attack, and has the minimum for a meaningful attack.
type attackMetric struct {
	name    string
	count   *atomic.Int64
	minimum int64
}

// attacks are all of them by name.
var attacks = map[string]attackSpec{
	"agents": linkMessages, "posts": posts, "connections": connections, "objects": objects, "open connections": {floodOfConnections, nil},
}

// runUnderAttack runs something during attacks, and waits until each attack has reached its minimum.
func (s *environment) runUnderAttack(ctx context.Context, something func(), names ...string) {
	GinkgoHelper()
	attackProcess := s.startAttackers(names)
	defer func() { Expect(attackProcess.stop()).To(Succeed()) }()
	something()
	for _, name := range names {
		for _, each := range attacks[name].metrics {
			Eventually(attackProcess.count).WithContext(ctx).WithArguments(each.name).WithTimeout(3*time.Minute).Should(BeNumerically(">=",
				each.minimum), each.name)
			AddReportEntry(each.name, ReportEntryVisibilityAlways, attackProcess.count(each.name))
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

// linkMessages makes every hostile program send everything that the link can encode.
var linkMessages = attackSpec{func(ctx context.Context, s *environment) {
	var all sync.WaitGroup
	for n, pod := range s.pods() {
		all.Go(func() { pod.sendScripts(ctx, s, rand.New(rand.NewPCG(1, uint64(n)))) })
	}
	all.Wait()
}, []attackMetric{{"messages of hostile programs", &messagesSent, 5000}, {"scripts that were said", &scripts, 50}}}

// Counts of what hostile programs have sent.
var messagesSent, scripts atomic.Int64

// scriptPause is the pause between two scripts. The machine also has to run the hostile programs, and their cost is not measured.
const scriptPause = 100 * time.Millisecond

// sendScripts sends all scripts repeatedly. It does not check how the operator handles them.
func (p *intruderPod) sendScripts(ctx context.Context, s *environment, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		knows, err := s.knowledge(ctx)
		if err != nil {
			continue // the context has ended
		}
		helloScripts := p.helloMessages(knows)
		limited := func(messages script) {
			turn, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_ = p.sendScript(turn, messages) // a refusal is what the suite expects
			scripts.Add(1)
			<-time.After(scriptPause)
		}
		for range 8 {
			limited(helloScript(pick(r, helloScripts)))
		}
		for _, messages := range []script{
			p.forgedResults(knows), p.unknownAttempts(p.Config.Namespace), p.unknownAttempts(p.Config.Namespace, s.honest[0].Namespace),
			p.oversize(knows), p.malformedMessages(r),
			generator{r, knows, p}.script(300),
		} {
			limited(messages)
		}
		turn, cancel := context.WithTimeout(ctx, time.Second)
		p.handBack(turn)
		cancel()
	}
}

// knowledge returns what users with the right to view may see, and more.
func (s *environment) knowledge(ctx context.Context) (knowledge, error) {
	reign, err := s.leader.readTerm(ctx)
	if err != nil {
		return knowledge{}, err
	}
	term, err := strconv.ParseInt(reign.stored, 10, 64)
	if err != nil {
		return knowledge{}, err
	}
	tasks, err := s.honestTasks(ctx)
	if err != nil {
		return knowledge{}, err
	}
	slices.SortStableFunc(tasks, func(a, b v1alpha1.Task) int { return finalOrder(a) - finalOrder(b) })
	knows := knowledge{term: term}
	for _, task := range tasks[:min(len(tasks), 12)] {
		knows.victims = append(knows.victims, &linkv1.Attempt{
			Namespace: task.Namespace, Task: task.Name, TaskUid: string(task.UID), Attempt: max(task.Status.Attempt, 1), Epoch: task.Status.Epoch,
		})
	}
	return knows, nil
}

// finalOrder sorts tasks that are not finished before the others.
func finalOrder(task v1alpha1.Task) int {
	if task.Status.Phase.Final() {
		return 1
	}
	return 0
}
