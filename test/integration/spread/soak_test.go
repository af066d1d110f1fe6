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
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

const (
	// chaosDuration is how long faults are injected between two recoveries.
	chaosDuration = 40 * time.Second
	// recoveryTimeout is how long a recovery may take. It mostly takes seconds, but Kubernetes credits a budget for a pod that was not
	// evicted only after two minutes.
	recoveryTimeout = 150 * time.Second
	// slow is how long a wait lasts before it is explained.
	slow = 20 * time.Second
	// quietPeriod is how long nothing may be written after a recovery.
	quietPeriod = 5 * time.Second
)

// A soakTest is an environment in which faults are injected repeatedly, in an order that depends on its seed.
type soakTest struct {
	*environment
	random        *rand.Rand
	workloads     []*managedWorkload
	podTimes      *podTimes
	replicas      []*replica // all that ever were
	frozen        []*replica
	resumed       []*replica
	interruptions []time.Time
	drillMoves    []request // what was moved before the last recovery
	extra         int       // nodes that were created in addition to the first
	faults        []string  // promises that were not kept
}

var _ = Describe("A long time of trouble", func() {
	It("breaks no promise, and whenever there is peace every workload finds its split and rests", func(ctx SpecContext) {
		long, seed := soakOptions()
		AddReportEntry("seed", ReportEntryVisibilityAlways, seed)
		replicaFleet.ensureReplicas(ctx, 3)
		s := &soakTest{environment: newCoveredEnvironment(ctx), random: rand.New(rand.NewPCG(seed, seed))}
		s.replicas, s.podTimes = replicaFleet.listReplicas(), record(ctx, s.environment)
		s.createWorkloads(ctx)
		s.awaitFormerSpecs(ctx)
		s.awaitRecovered(ctx, "at first")
		for began, round := time.Now(), 1; time.Since(began) < long; round++ {
			for trouble := time.Now(); time.Since(trouble) < min(chaosDuration, long); {
				s.injectChaos(ctx)
			}
			s.heal(ctx)
			s.awaitRecovered(ctx, fmt.Sprintf("seed %d round %d", seed, round))
			if round%2 == 0 {
				s.rollAndScaleAll(ctx, fmt.Sprintf("seed %d drill %d", seed, round))
			}
		}
		Expect(s.faults).To(BeEmpty())
	})
})

// soakOptions returns how long faults are injected (SPREAD_SOAK) and the seed of their order (SPREAD_SEED). Every run of the suite has a
// short version with a fixed seed; `make soak` has a long one.
func soakOptions() (time.Duration, uint64) {
	GinkgoHelper()
	long, err := time.ParseDuration(cmp.Or(os.Getenv("SPREAD_SOAK"), "30s"))
	Expect(err).NotTo(HaveOccurred(), "SPREAD_SOAK is a duration, such as 6m")
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SPREAD_SEED"), "1"), 10, 64)
	Expect(err).NotTo(HaveOccurred(), "SPREAD_SEED is a number")
	return long, seed
}

// awaitFormerSpecs waits until the webhook is called only for the soak's own namespace: the operator removes the namespaces of earlier
// specs with one write each, and the soak counts writes.
func (s *soakTest) awaitFormerSpecs(ctx context.Context) {
	GinkgoHelper()
	Eventually(selected).WithContext(ctx).WithTimeout(recoveryTimeout).Should(ConsistOf(s.namespace))
}

// fault records a broken promise. The soak continues, to find others.
func (s *soakTest) fault(format string, values ...any) {
	text := time.Now().Format("15:04:05.000 ") + fmt.Sprintf(format, values...)
	s.faults = append(s.faults, text)
	GinkgoWriter.Println("FAULT", text)
}

// awaitRecovered waits until every workload is in its desired state, and checks that this lasts and that all promises were kept.
func (s *soakTest) awaitRecovered(ctx context.Context, when string) {
	GinkgoHelper()
	began := time.Now()
	failed := s.awaitHealthy(ctx, when)
	took := time.Since(began)
	AddReportEntry(when, ReportEntryVisibilityAlways, fmt.Sprintf("peace after %.1f s, %d moves", took.Seconds(), len(s.moves())))
	if len(failed) == 0 {
		failed = s.unexpectedActivity(ctx, when)
	}
	for _, why := range failed {
		s.fault("%s", why)
	}
	if len(failed) > 0 {
		s.describe(ctx)
	}
	s.checkMoves()
	s.drillMoves = s.moves()
	s.since = currentAuditPosition()
}

// awaitHealthy waits until there is no problem, and logs what it waits for if that takes long.
func (s *soakTest) awaitHealthy(ctx context.Context, when string) []string {
	GinkgoHelper()
	began, reported := time.Now(), false
	return InterceptGomegaFailures(func() {
		Eventually(func(ctx context.Context) []string {
			problems := s.findProblems(ctx)
			if len(problems) > 0 && time.Since(began) > slow && !reported {
				AddReportEntry(when, ReportEntryVisibilityAlways, fmt.Sprintf("after %s it still waits for: %s", slow, strings.Join(problems, "; ")))
				s.describe(ctx)
				reported = true
			}
			return problems
		}).WithContext(ctx).WithTimeout(recoveryTimeout).WithPolling(200*time.Millisecond).Should(BeEmpty(), when)
	})
}

// rollAndScaleAll rolls and scales everything while nothing else happens, and expects no move: a rollout assigns all numbers again, and
// every prefix of them is right.
func (s *soakTest) rollAndScaleAll(ctx context.Context, when string) {
	GinkgoHelper()
	before := s.estimatedPlacements(ctx)
	for _, w := range s.workloads {
		w.patch(ctx, templateChange(when))
	}
	s.awaitRecovered(ctx, when+" rolled")
	s.checkOrdinals(ctx, when, s.estimatedPlacements(ctx)-before)
	for _, w := range s.workloads {
		s.rescale(ctx, w)
	}
	s.awaitRecovered(ctx, when+" scaled")
	s.checkOrdinals(ctx, when, s.estimatedPlacements(ctx)-before)
}

// estimatedPlacements is how many places were estimates.
func (s *soakTest) estimatedPlacements(ctx context.Context) (total int) {
	GinkgoHelper()
	for _, one := range replicaFleet.listReplicas() {
		count, err := one.metric(ctx, `swarm_placement_answers_total{by="estimate"}`)
		Expect(err).NotTo(HaveOccurred())
		some, _ := strconv.Atoi(count) // "" when it never had to
		total += some
	}
	return total
}

// checkOrdinals checks that nothing was moved since the last recovery, and that all pods of Deployments have the right numbers.
func (s *soakTest) checkOrdinals(ctx context.Context, when string, guessed int) {
	GinkgoHelper()
	if guessed > 0 {
		AddReportEntry(when, ReportEntryVisibilityAlways, fmt.Sprintf("%d guesses", guessed))
		return
	}
	if moves := s.drillMoves; len(moves) > 0 {
		s.fault("%s: moved in peace: %v", when, moves)
	}
	for _, w := range s.workloads {
		if w.kind != v1alpha1.WorkloadDeployment || !w.managed {
			continue
		}
		pods, err := s.pods(ctx, w.GetName())
		Expect(err).NotTo(HaveOccurred())
		pods = slices.DeleteFunc(pods, isTerminated)
		for n, pod := range pods {
			class := string(split.Of(w.policy(), n))
			if numberOf(pod) != n || pod.Annotations[annotationKey(v1alpha1.SpreadClass)] != class {
				s.fault("%s: pod %s of %d should be number %d for %s, and has %v", when, pod.Name, len(pods), n, class, pod.Annotations)
			}
		}
	}
}

// unexpectedActivity returns what still happens although nothing should. Activity in progress gets a second to end.
func (s *soakTest) unexpectedActivity(ctx context.Context, when string) []string {
	GinkgoHelper()
	calm := currentAuditPosition()
	written := func() []request {
		return slices.DeleteFunc(calm.requests(), func(r request) bool {
			aside := r.ObjectRef.Resource == "leases" || r.ObjectRef.Resource == "events"
			reads := r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
			return aside || reads || r.Received.Before(calm.at.Add(time.Second))
		})
	}
	return InterceptGomegaFailures(func() {
		Consistently(written).WithContext(ctx).WithTimeout(quietPeriod).WithPolling(time.Second).Should(BeEmpty(), when)
		Expect(s.findProblems(ctx)).To(BeEmpty(), when)
	})
}

// findProblems returns what is not in its desired state.
func (s *soakTest) findProblems(ctx context.Context) []string {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	class, err := classes(ctx, capacity)
	Expect(err).NotTo(HaveOccurred())
	var problems []string
	for _, one := range s.workloads {
		object, err := one.current(ctx)
		Expect(err).NotTo(HaveOccurred())
		if why := one.problem(object, list.Items, class); why != "" {
			problems = append(problems, fmt.Sprintf("%s (%s, %d replicas, floor %d, %d%%): %s", one.GetName(), one.kind, one.size, one.floor,
				one.share, why))
		}
	}
	return problems
}
