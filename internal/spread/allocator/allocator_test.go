package allocator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/testkit/build"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// newTestAllocator returns an allocator that reads this cache, with time stopped at noon.
func newTestAllocator(from *fakeCache) *Allocator {
	allocator := New(from, from.listPods, testSettings(), testRefusals())
	allocator.now = func() time.Time { return noon }
	return allocator
}

func requestFor(request string) Request {
	return Request{Workload: web, TemplateHash: "abc", UID: request}
}

// mustPlace returns an answer, and fails the test if there is none.
func mustPlace(t testing.TB, allocator *Allocator, request Request) Placement {
	t.Helper()
	placement, err := allocator.Place(t.Context(), request)
	if err != nil {
		t.Fatalf("%+v: %v", request, err)
	}
	return placement
}

func TestTenPodsInSequenceKeepTheFloor(t *testing.T) {
	for _, late := range []bool{false, true} {
		fake, pods := newFakeCache(t, deployment(10, spreadAnnotations(tenOf4))), map[string]Placement{}
		allocator := newTestAllocator(fake)
		for n := range 10 {
			name := fmt.Sprint(n)
			placement := mustPlace(t, allocator, requestFor(name))
			pods[name] = placement
			if got, want := distributionOf(pods), split.DesiredDistribution(tenOf4, n+1); got != want {
				t.Fatalf("after %d pods %v, want %v", n+1, got, want)
			}
			if !late {
				fake.set(newPlacedPod(name, "abc", placement.Number, placement.Class))
			}
		}
	}
}

func TestDryRunsTakeNoNumber(t *testing.T) {
	allocator := newTestAllocator(newFakeCache(t, deployment(10, spreadAnnotations(tenOf4))))
	dry := requestFor("dry")
	dry.DryRun = true
	for range 20 {
		if got := mustPlace(t, allocator, dry); got != (Placement{Managed: true, Class: split.OnDemand}) {
			t.Fatalf("a dry run was told %+v", got)
		}
	}
	if got := mustPlace(t, allocator, requestFor("real")); got.Number != 0 {
		t.Errorf("the first pod got %d", got.Number)
	}
}

func TestRepeatedRequestGetsTheSameAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCache(t, deployment(10, spreadAnnotations(tenOf4)))
		allocator, began := New(fake, fake.listPods, testSettings(), testRefusals()), time.Now()
		for n := range 10 {
			for range 3 {
				if got := mustPlace(t, allocator, requestFor(fmt.Sprint(n))); got.Number != n || time.Since(began) > 0 {
					t.Fatalf("request %d got %d after %v", n, got.Number, time.Since(began))
				}
			}
		}
	})
}

func TestOnlyManagedWorkloadsArePlaced(t *testing.T) {
	choosy := deployment(10, spreadAnnotations(tenOf4))
	choosy.Spec.Template.Spec.NodeSelector = map[string]string{build.CapacityType: "spot"}
	numberless := spreadAnnotations(tenOf4)
	delete(numberless, "swarm.io/min-on-demand")
	delete(numberless, "swarm.io/spot-percentage")
	for _, c := range []struct {
		reason   string
		workload *appsv1.Deployment
		want     Placement
	}{
		{"two annotations are enough", deployment(10, spreadAnnotations(tenOf4)), Placement{Managed: true, Class: split.OnDemand}},
		{"nothing said", deployment(10, nil), Placement{}},
		{"enabled without numbers", deployment(10, numberless), Placement{}},
		{"a template that chooses itself", choosy, Placement{}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := mustPlace(t, newTestAllocator(newFakeCache(t, c.workload)), requestFor("r")); got != c.want {
				t.Errorf("told %+v", got)
			}
		})
	}
}

func TestStatefulSetsGoByOrdinal(t *testing.T) {
	policy := split.Policy{MinOnDemand: 2, SpotPercent: 60}
	for _, c := range []struct {
		reason, pod string
		first       int
		want        Placement
	}{
		{"the first", "db-0", 0, Placement{true, 0, split.OnDemand}},
		{"the third", "db-2", 0, Placement{true, 2, split.Spot}},
		{"beyond the replicas, of which nothing is known yet", "db-7", 0, Placement{true, 7, split.Of(policy, 7)}},
		{"ordinals that begin elsewhere", "db-12", 10, Placement{true, 2, split.Spot}},
		{"an ordinal before the first", "db-2", 10, Placement{}},
		{"a name without ordinal", "db-x", 0, Placement{}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			allocator := newTestAllocator(newFakeCache(t, statefulSet(c.first, spreadAnnotations(policy))))
			for range 2 {
				if got := mustPlace(t, allocator, Request{Workload: db, PodName: c.pod, UID: "r"}); got != c.want {
					t.Errorf("told %+v, want %+v", got, c.want)
				}
			}
		})
	}
}

func TestPodsThatUseNumbers(t *testing.T) {
	going := newPlacedPod("going", "abc", 0, split.OnDemand)
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	elsewhere := newPlacedPod("elsewhere", "abc", 0, split.OnDemand)
	elsewhere.Namespace = "other"
	for _, c := range []struct {
		reason string
		pods   []*corev1.Pod
		want   int
	}{
		{"none", nil, 0},
		{"those of the ReplicaSet", []*corev1.Pod{newPlacedPod("a", "abc", 0, split.OnDemand), newPlacedPod("b", "abc", 2, split.OnDemand)}, 1},
		{"not those of another ReplicaSet", []*corev1.Pod{newPlacedPod("a", "xyz", 0, split.OnDemand)}, 0},
		{"not those of another namespace", []*corev1.Pod{elsewhere}, 0},
		{"not those on their way out", []*corev1.Pod{going}, 0},
		{"those without a number", []*corev1.Pod{newPod("a", "abc", nil), newPod("b", "abc", nil)}, 2},
	} {
		t.Run(c.reason, func(t *testing.T) {
			fake := newFakeCache(t, deployment(10, spreadAnnotations(tenOf4)))
			for _, pod := range c.pods {
				fake.set(pod)
			}
			if got := mustPlace(t, newTestAllocator(fake), requestFor("r")); got.Number != c.want {
				t.Errorf("got %d, want %d", got.Number, c.want)
			}
		})
	}
}

// A pod created without us stands for a number of the class of its node: neither the floor nor spot is filled twice.
func TestPodsMadeWithoutUsCountForTheirNodes(t *testing.T) {
	policy := split.Policy{MinOnDemand: 2, SpotPercent: 100}
	for _, c := range []struct {
		node *corev1.Node
		want int
	}{
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "some-node", Labels: map[string]string{build.CapacityType: "spot"}}}, 0},
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "some-node"}}, 2},
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}}, 2}, // a missing node counts as on-demand
	} {
		fake := newFakeCache(t, deployment(10, spreadAnnotations(policy)), c.node, newPod("a", "abc", nil), newPod("b", "abc", nil))
		if got := mustPlace(t, newTestAllocator(fake), requestFor("r")); got.Number != c.want {
			t.Errorf("on %+v: got %d, want %d", c.node.ObjectMeta, got.Number, c.want)
		}
	}
}

// Half of the replicas belong on on-demand nodes. Two pods there stand for numbers 0 and 2, so that the next pod goes to spot.
func TestPodsOfNodesThatAreGoneCountAsOnDemand(t *testing.T) {
	fake := newFakeCache(t, deployment(10, spreadAnnotations(split.Policy{SpotPercent: 50})), newPod("a", "abc", nil), newPod("b", "abc", nil))
	if got := mustPlace(t, newTestAllocator(fake), requestFor("r")); got.Number != 1 || got.Class != split.Spot {
		t.Errorf("got %+v", got)
	}
}

// Without the pods, or their nodes, any number could be taken.
func TestNoNumberIsTakenWhenPodsOrNodesCannotBeRead(t *testing.T) {
	unread := func(context.Context, workloads.Key) ([]*corev1.Pod, error) { return nil, errBroken }
	fake := newFakeCache(t, deployment(10, spreadAnnotations(tenOf4)))
	if got, err := New(fake, unread, testSettings(), testRefusals()).Place(t.Context(), requestFor("r")); !errors.Is(err, errBroken) ||
		got != (Placement{}) {
		t.Errorf("pods cannot be read: told %+v, %v", got, err)
	}
	fake.set(newPod("a", "abc", nil))
	nodeless := func(ctx context.Context, of workloads.Key) ([]*corev1.Pod, error) {
		pods, err := fake.listPods(ctx, of)
		fake.failWith(errBroken) // for what is read after the pods
		return pods, err
	}
	if got, err := New(fake, nodeless, testSettings(), testRefusals()).Place(t.Context(), requestFor("r")); !errors.Is(err, errBroken) ||
		got != (Placement{}) {
		t.Errorf("nodes cannot be read: told %+v, %v", got, err)
	}
}

func TestClassesWithoutCapacityAreAvoided(t *testing.T) {
	policy := split.Policy{SpotPercent: 100}
	allocator := newTestAllocator(newFakeCache(t, deployment(10, spreadAnnotations(policy))))
	closed := split.ClassStates{Spot: split.ClassState{Availability: split.Unavailable, ProbeNumber: split.Unnumbered}}
	for _, step := range []struct {
		reason string
		change func()
		want   split.Class
	}{
		{"nothing judged", func() {}, split.Spot},
		{"no room on spot", func() { allocator.SetClassStates(web, closed) }, split.OnDemand},
		{"no room for another workload", func() { allocator.SetClassStates(web, split.ClassStates{}); allocator.SetClassStates(db, closed) },
			split.Spot},
		{"no room again", func() { allocator.SetClassStates(web, closed) }, split.OnDemand},
		{"forgotten", func() { allocator.Forget(web) }, split.Spot},
	} {
		if step.change(); mustPlace(t, allocator, requestFor("r")).Class != step.want {
			t.Errorf("%s: not %s", step.reason, step.want)
		}
	}
}

func TestIdleReplicaSetsAreDropped(t *testing.T) {
	allocator, now := newTestAllocator(newFakeCache(t, deployment(10, spreadAnnotations(tenOf4)))), noon
	allocator.now = func() time.Time { return now }
	mustPlace(t, allocator, requestFor("r"))
	for n, step := range []struct {
		after time.Duration
		kept  int
	}{{reservationTTL, 2}, {reservationTTL, 2}, {reservationTTL, 1}} {
		now = now.Add(step.after)
		mustPlace(t, allocator, Request{Workload: web, TemplateHash: "xyz", UID: fmt.Sprint(n)})
		if len(allocator.numbersByReplicaSet) != step.kept {
			t.Errorf("after %v more the numbers of %d ReplicaSets are kept", step.after, len(allocator.numbersByReplicaSet))
		}
	}
	if allocator.Forget(web); len(allocator.numbersByReplicaSet) > 0 || len(allocator.classStates) > 0 {
		t.Errorf("a forgotten workload is remembered: %v", allocator.numbersByReplicaSet)
	}
}

func TestReservationExpires(t *testing.T) {
	allocator, now := newTestAllocator(newFakeCache(t, deployment(10, spreadAnnotations(tenOf4)))), noon
	allocator.now = func() time.Time { return now }
	mustPlace(t, allocator, requestFor("lost"))
	if got := mustPlace(t, allocator, requestFor("next")).Number; got != 1 {
		t.Errorf("within grace: %d", got)
	}
	now = now.Add(reservationTTL)
	if got := mustPlace(t, allocator, requestFor("later")).Number; got != 0 {
		t.Errorf("after grace: %d", got)
	}
}

// A pod may come and go between two requests. Its number is free at once.
func TestShortLivedPodsFreeTheirNumbers(t *testing.T) {
	fake, watched := newFakeCache(t, deployment(10, spreadAnnotations(tenOf4))), &informertest.FakeInformers{}
	allocator := newTestAllocator(fake)
	if err := allocator.WatchPods(t.Context(), watched); err != nil {
		t.Fatal(err)
	}
	pods, err := watched.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	stranger, orphan := newPod("s", "abc", nil), newPlacedPod("o", "abc", 1, split.OnDemand)
	orphan.OwnerReferences = nil
	for n, step := range []struct {
		appears []*corev1.Pod
		want    int
	}{
		{nil, 0},
		{[]*corev1.Pod{newPlacedPod("a", "abc", 0, split.OnDemand)}, 0},
		{[]*corev1.Pod{newPlacedPod("b", "xyz", 0, split.OnDemand), stranger}, 1},
		{[]*corev1.Pod{orphan}, 2},
	} {
		for _, pod := range step.appears {
			pods.Add(pod)
		}
		if got := mustPlace(t, allocator, requestFor(fmt.Sprint(n))).Number; got != step.want {
			t.Errorf("step %d: got %d, want %d", n, got, step.want)
		}
	}
}

func TestWaitsForALaggingCache(t *testing.T) {
	full := []*corev1.Pod{newPlacedPod("a", "abc", 0, split.OnDemand), newPlacedPod("b", "abc", 1, split.OnDemand)}
	for _, c := range []struct {
		reason string
		has    *appsv1.Deployment // nil for none yet
		comes  func(*fakeCache)   // after 100 ms
		want   Placement
		waited time.Duration
	}{
		{"a pod that is gone", deployment(2, spreadAnnotations(tenOf4)), func(c *fakeCache) { c.deletePods("a") },
			Placement{true, 0, split.OnDemand}, 100 * time.Millisecond},
		{"more replicas", deployment(2, spreadAnnotations(tenOf4)), func(c *fakeCache) { c.set(deployment(3, spreadAnnotations(tenOf4))) },
			Placement{true, 2, split.OnDemand}, 100 * time.Millisecond},
		{"a workload that is new", nil, func(c *fakeCache) { c.set(deployment(3, spreadAnnotations(tenOf4))) },
			Placement{true, 2, split.OnDemand}, 100 * time.Millisecond},
		{"a workload that is no more managed", deployment(2, spreadAnnotations(tenOf4)), func(c *fakeCache) { c.set(deployment(2, nil)) },
			Placement{}, 100 * time.Millisecond},
		{"nothing", deployment(2, spreadAnnotations(tenOf4)), func(*fakeCache) {}, Placement{true, 2, split.OnDemand}, maxCacheLag},
		{"no workload", nil, func(*fakeCache) {}, Placement{}, maxCacheLag},
	} {
		t.Run(c.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCache(t, full[0], full[1])
				if c.has != nil {
					fake.set(c.has)
				}
				time.AfterFunc(100*time.Millisecond-time.Nanosecond, func() { c.comes(fake) })
				began := time.Now()
				if got := mustPlace(t, New(fake, fake.listPods, testSettings(), testRefusals()), requestFor("r")); got != c.want {
					t.Errorf("told %+v, want %+v", got, c.want)
				}
				if waited := time.Since(began); waited != c.waited {
					t.Errorf("waited %v", waited)
				}
			})
		})
	}
}

// While one request waits for the cache, others are answered: of other workloads, and of the same once there is a number.
func TestWaitingRequestBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCache(t, deployment(1, spreadAnnotations(tenOf4)), statefulSet(0, spreadAnnotations(tenOf4)),
			newPlacedPod("a", "abc", 0, split.OnDemand))
		allocator, first := New(fake, fake.listPods, testSettings(), testRefusals()), make(chan Placement)
		go func() {
			answer, _ := allocator.Place(t.Context(), requestFor("waits"))
			first <- answer
		}()
		synctest.Wait()
		began := time.Now()
		mustPlace(t, allocator, Request{Workload: db, PodName: "db-0"})
		if got := mustPlace(t, allocator, Request{Workload: web, TemplateHash: "xyz", UID: "next rollout"}); got.Number != 0 ||
			time.Since(began) > 0 {
			t.Errorf("told %+v after %v", got, time.Since(began))
		}
		if got := <-first; got.Number != 1 {
			t.Errorf("the one that waited was told %+v", got)
		}
	})
}

func TestNumberOfARejectedPodIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCache(t, deployment(2, spreadAnnotations(tenOf4)))
		allocator := New(fake, fake.listPods, testSettings(), testRefusals())
		for _, request := range []string{"refused", "late"} {
			mustPlace(t, allocator, requestFor(request))
		}
		time.Sleep(takeOverAfter)
		for n, request := range []string{"next", "last", "next"} {
			if got := mustPlace(t, allocator, requestFor(request)); got.Number != n%2 {
				t.Errorf("%s got %d", request, got.Number)
			}
		}
	})
}

func TestCanceledRequestReservesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCache(t, deployment(1, spreadAnnotations(tenOf4)), newPlacedPod("a", "abc", 0, split.OnDemand))
		allocator := New(fake, fake.listPods, testSettings(), testRefusals())
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := allocator.Place(ctx, requestFor("gone")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("told %v", err)
		}
		if got := mustPlace(t, allocator, requestFor("next")); got.Number != 1 {
			t.Errorf("the next got %d", got.Number)
		}
	})
}

func TestReadErrorsAreReturned(t *testing.T) {
	fake := newFakeCache(t, deployment(1, spreadAnnotations(tenOf4)))
	fake.failWith(errBroken)
	for _, workload := range []workloads.Key{web, db} {
		if _, err := newTestAllocator(fake).Place(t.Context(), Request{Workload: workload, PodName: "db-0", TemplateHash: "abc"}); !errors.Is(err,
			errBroken) {
			t.Errorf("%s: told %v", workload, err)
		}
	}
}

func TestBurstOf50IsExact(t *testing.T) {
	for _, policy := range []split.Policy{tenOf4, {MinOnDemand: 2, SpotPercent: 60}, {SpotPercent: 50}} {
		fake, answers := newFakeCache(t, deployment(50, spreadAnnotations(policy))), make(chan Placement)
		allocator := newTestAllocator(fake)
		for n := range 50 {
			go func() {
				name := fmt.Sprint(n)
				answer, err := allocator.Place(t.Context(), requestFor(name))
				if err != nil {
					t.Error(err)
				}
				if n%2 == 0 { // half of them are seen at once, the others never
					fake.set(newPlacedPod(name, "abc", answer.Number, answer.Class))
				}
				answers <- answer
			}()
		}
		pods, numbers := map[string]Placement{}, []int{}
		for n := range 50 {
			answer := <-answers
			pods[fmt.Sprint(n)], numbers = answer, append(numbers, answer.Number)
		}
		slices.Sort(numbers)
		if distinct := len(slices.Compact(numbers)); distinct != 50 || distributionOf(pods) != split.DesiredDistribution(policy, 50) {
			t.Errorf("%v: %d numbers, %v", policy, distinct, distributionOf(pods))
		}
	}
}

// A ReplicaSet of 200 that lacks one pod, as in the middle of a large rollout.
func BenchmarkPlace(b *testing.B) {
	fake := newFakeCache(b, deployment(200, spreadAnnotations(tenOf4)))
	for n := range 199 {
		fake.set(newPlacedPod(fmt.Sprintf("web-abc-%d", n), "abc", n, split.Of(tenOf4, n)))
	}
	allocator := newTestAllocator(fake)
	b.ReportAllocs()
	for b.Loop() {
		if got := mustPlace(b, allocator, requestFor("r")); got.Number != 199 {
			b.Fatalf("told %+v", got)
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	for reason, ask := range map[string]Request{
		"UID of the request":     {Workload: web, TemplateHash: "abc", UID: strings.Repeat("x", maxUIDLength+1)},
		"not a label value":      {Workload: web, TemplateHash: strings.Repeat("x", 64), UID: "r"},
		"name of the pod is too": {Workload: web, TemplateHash: "abc", UID: "r", PodName: strings.Repeat("x", 254)},
	} {
		fake := newFakeCache(t, deployment(10, spreadAnnotations(tenOf4)))
		allocator := New(fake, fake.listPods, testSettings(), testRefusals())
		if _, err := allocator.Place(t.Context(), ask); err == nil || !strings.Contains(err.Error(), reason) ||
			len(allocator.numbersByReplicaSet) > 0 {
			t.Errorf("%s: %v, %d remembered", reason, err, len(allocator.numbersByReplicaSet))
		}
	}
}

// Anyone who reaches the webhook can request pods of any template, any number of times.
func TestStatePerDeploymentIsBounded(t *testing.T) {
	const replicas = 10
	fake := newFakeCache(t, deployment(replicas, spreadAnnotations(tenOf4)))
	allocator := New(fake, fake.listPods, testSettings(), testRefusals())
	allocator.now = func() time.Time { return noon }
	for n := range 2 * maxTemplates {
		ask := Request{Workload: web, TemplateHash: fmt.Sprint("template", n), UID: fmt.Sprint(n)}
		if got := mustPlace(t, allocator, ask); got.Number != 0 || !got.Managed {
			t.Errorf("the first pod of a template got %v", got)
		}
	}
	if len(allocator.numbersByReplicaSet) != maxTemplates {
		t.Errorf("%d templates are remembered", len(allocator.numbersByReplicaSet))
	}
	numbers := allocator.numbersByReplicaSet[replicaSetKey{web, "template0"}]
	for n := range 3 * maxOutstanding(replicas) {
		numbers.Reserve(fmt.Sprint("flood", n), noon)
		if numbers.CountReservations(noon) == maxOutstanding(replicas) {
			break
		}
	}
	mustPlace(t, allocator, Request{Workload: web, TemplateHash: "template0", UID: "one more"})
	if got := numbers.CountReservations(noon); got != maxOutstanding(replicas) {
		t.Errorf("%d numbers are outstanding, at most %d are allowed", got, maxOutstanding(replicas))
	}
	if _, given := numbers.ReservedNumber("one more", noon); given {
		t.Error("a number beyond the limit is remembered")
	}
}
