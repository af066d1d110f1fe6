package spread

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	engine "github.com/swarm-io/swarm-operator/internal/spread"
)

const (
	// harmed is how long everything goes wrong between two times of peace.
	harmed = 40 * time.Second
	// healed is how long it may take until all is well again. It is mostly seconds; but Kubernetes gives back to a budget what it has
	// charged for a pod that was not evicted after two minutes.
	healed = 150 * time.Second
	// slow is how long a wait lasts before it is explained.
	slow = 20 * time.Second
	// still is how long nothing is written when all is well.
	still = 5 * time.Second
)

// A soak is a scene in which everything goes wrong again and again, in an order that its seed gives.
type soak struct {
	*scene
	dice          *rand.Rand
	cast          []*actor
	ledger        *ledger
	crew          []*replica // all that ever were
	frozen        []*replica
	thawed        []*replica
	interruptions []time.Time
	drilled       []request // what was moved before the last time of peace
	extra         int       // nodes that were made beside the first
	faults        []string  // promises that were not kept
}

var _ = Describe("A long time of trouble", func() {
	It("breaks no promise, and whenever there is peace every workload finds its split and rests", func(ctx SpecContext) {
		long, seed := soaking()
		AddReportEntry("seed", ReportEntryVisibilityAlways, seed)
		team.crew(ctx, 3)
		s := &soak{scene: covered(ctx), dice: rand.New(rand.NewPCG(seed, seed))}
		s.crew, s.ledger = team.all(), record(ctx, s.scene)
		s.enter(ctx)
		s.awaitFormerSpecs(ctx)
		s.peace(ctx, "at first")
		for began, round := time.Now(), 1; time.Since(began) < long; round++ {
			for trouble := time.Now(); time.Since(trouble) < min(harmed, long); {
				s.harm(ctx)
			}
			s.heal(ctx)
			s.peace(ctx, fmt.Sprintf("seed %d round %d", seed, round))
			if round%2 == 0 {
				s.drill(ctx, fmt.Sprintf("seed %d drill %d", seed, round))
			}
		}
		Expect(s.faults).To(BeEmpty())
	})
})

// soaking returns how long faults are injected (SPREAD_SOAK) and the seed of their order (SPREAD_SEED). Every run of the suite has a short
// version with a fixed seed; `make soak` has a long one.
func soaking() (time.Duration, uint64) {
	GinkgoHelper()
	long, err := time.ParseDuration(cmp.Or(os.Getenv("SPREAD_SOAK"), "30s"))
	Expect(err).NotTo(HaveOccurred(), "SPREAD_SOAK is a duration, such as 6m")
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SPREAD_SEED"), "1"), 10, 64)
	Expect(err).NotTo(HaveOccurred(), "SPREAD_SEED is a number")
	return long, seed
}

// awaitFormerSpecs waits until the API server asks about the soak's own namespace alone: the operator gives up the namespaces of earlier
// specs with a write each, and the soak counts its writes.
func (s *soak) awaitFormerSpecs(ctx context.Context) {
	GinkgoHelper()
	Eventually(selected).WithContext(ctx).WithTimeout(healed).Should(ConsistOf(s.in))
}

// fault notes a promise that was not kept. The soak goes on: there may be others.
func (s *soak) fault(format string, values ...any) {
	text := time.Now().Format("15:04:05.000 ") + fmt.Sprintf(format, values...)
	s.faults = append(s.faults, text)
	GinkgoWriter.Println("FAULT", text)
}

// peace waits until every workload is as it should be, and looks whether that lasts and whether all promises were kept on the way.
func (s *soak) peace(ctx context.Context, when string) {
	GinkgoHelper()
	began := time.Now()
	failed := s.heals(ctx, when)
	took := time.Since(began)
	AddReportEntry(when, ReportEntryVisibilityAlways, fmt.Sprintf("peace after %.1f s, %d moves", took.Seconds(), len(s.moves())))
	if len(failed) == 0 {
		failed = s.rests(ctx, when)
	}
	for _, why := range failed {
		s.fault("%s", why)
	}
	if len(failed) > 0 {
		s.describe(ctx)
	}
	s.judge()
	s.drilled = s.moves()
	s.since = now()
}

// heals waits until nothing is wrong any more, and logs what it waits for when that takes long.
func (s *soak) heals(ctx context.Context, when string) []string {
	GinkgoHelper()
	began, told := time.Now(), false
	return InterceptGomegaFailures(func() {
		Eventually(func(ctx context.Context) []string {
			left := s.trouble(ctx)
			if len(left) > 0 && time.Since(began) > slow && !told {
				AddReportEntry(when, ReportEntryVisibilityAlways, fmt.Sprintf("after %s it still waits for: %s", slow, strings.Join(left, "; ")))
				s.describe(ctx)
				told = true
			}
			return left
		}).WithContext(ctx).WithTimeout(healed).WithPolling(200*time.Millisecond).Should(BeEmpty(), when)
	})
}

// drill rolls and scales everything while nothing else happens, and expects no move: a rollout assigns all numbers again, and every prefix
// of them is right.
func (s *soak) drill(ctx context.Context, when string) {
	GinkgoHelper()
	before := s.guesses(ctx)
	for _, one := range s.cast {
		one.patch(ctx, rolled(when))
	}
	s.peace(ctx, when+" rolled")
	s.numbered(ctx, when, s.guesses(ctx)-before)
	for _, one := range s.cast {
		s.rescale(ctx, one)
	}
	s.peace(ctx, when+" scaled")
	s.numbered(ctx, when, s.guesses(ctx)-before)
}

// guesses is how many places were estimates.
func (s *soak) guesses(ctx context.Context) (all int) {
	GinkgoHelper()
	for _, one := range team.all() {
		count, err := one.metric(ctx, `swarm_placement_answers_total{by="estimate"}`)
		Expect(err).NotTo(HaveOccurred())
		some, _ := strconv.Atoi(count) // "" when it never had to
		all += some
	}
	return all
}

// numbered looks whether nothing was moved since the last time of peace, and all pods of Deployments have the numbers that they should.
func (s *soak) numbered(ctx context.Context, when string, guessed int) {
	GinkgoHelper()
	if guessed > 0 {
		AddReportEntry(when, ReportEntryVisibilityAlways, fmt.Sprintf("%d guesses", guessed))
		return
	}
	if moves := s.drilled; len(moves) > 0 {
		s.fault("%s: moved in peace: %v", when, moves)
	}
	for _, one := range s.cast {
		if one.kind != v1alpha1.WorkloadDeployment || !one.managed {
			continue
		}
		pods, err := s.pods(ctx, one.GetName())
		Expect(err).NotTo(HaveOccurred())
		pods = slices.DeleteFunc(pods, over)
		for n, pod := range pods {
			class := string(engine.Of(one.policy(), n))
			if numberOf(pod) != n || pod.Annotations[spreads(v1alpha1.SpreadClass)] != class {
				s.fault("%s: pod %s of %d should be number %d for %s, and has %v", when, pod.Name, len(pods), n, class, pod.Annotations)
			}
		}
	}
}

// rests is what happens though nothing should any more. What is under way gets a second.
func (s *soak) rests(ctx context.Context, when string) []string {
	GinkgoHelper()
	calm := now()
	written := func() []request {
		return slices.DeleteFunc(calm.requests(), func(r request) bool {
			aside := r.ObjectRef.Resource == "leases" || r.ObjectRef.Resource == "events"
			reads := r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
			return aside || reads || r.Received.Before(calm.at.Add(time.Second))
		})
	}
	return InterceptGomegaFailures(func() {
		Consistently(written).WithContext(ctx).WithTimeout(still).WithPolling(time.Second).Should(BeEmpty(), when)
		Expect(s.trouble(ctx)).To(BeEmpty(), when)
	})
}

// trouble is what is not as it should be.
func (s *soak) trouble(ctx context.Context) []string {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(s.in))).To(Succeed())
	class, err := classes(ctx, capacity)
	Expect(err).NotTo(HaveOccurred())
	var all []string
	for _, one := range s.cast {
		object, err := one.fresh(ctx)
		Expect(err).NotTo(HaveOccurred())
		if why := one.trouble(object, list.Items, class); why != "" {
			all = append(all, fmt.Sprintf("%s (%s, %d replicas, floor %d, %d%%): %s", one.GetName(), one.kind, one.size, one.floor, one.share, why))
		}
	}
	return all
}
