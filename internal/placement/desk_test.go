package placement

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

	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// deskFor returns a desk that reads this cache, with time stopped at noon.
func deskFor(from *store) *Desk {
	desk := NewDesk(from, from.replicas, standard(), uncounted())
	desk.now = func() time.Time { return noon }
	return desk
}

func asking(request string) Ask { return Ask{Workload: web, Hash: "abc", Request: request} }

// told returns an answer, and fails the test if there is none.
func told(t testing.TB, desk *Desk, ask Ask) Answer {
	t.Helper()
	answer, err := desk.Place(t.Context(), ask)
	if err != nil {
		t.Fatalf("%+v: %v", ask, err)
	}
	return answer
}

func TestTenPodsInSequenceKeepTheFloor(t *testing.T) {
	for _, late := range []bool{false, true} {
		known, pods := newStore(t, deployment(10, wished(tenOf4))), map[string]Answer{}
		desk := deskFor(known)
		for n := range 10 {
			name := fmt.Sprint(n)
			answer := told(t, desk, asking(name))
			pods[name] = answer
			if got, want := mix(pods), spread.DesiredDistribution(tenOf4, n+1); got != want {
				t.Fatalf("after %d pods %v, want %v", n+1, got, want)
			}
			if !late {
				known.sees(numbered(name, "abc", answer.Number, answer.Class))
			}
		}
	}
}

func TestDryRunsTakeNoNumber(t *testing.T) {
	desk := deskFor(newStore(t, deployment(10, wished(tenOf4))))
	dry := asking("dry")
	dry.DryRun = true
	for range 20 {
		if got := told(t, desk, dry); got != (Answer{Managed: true, Class: spread.OnDemand}) {
			t.Fatalf("a dry run was told %+v", got)
		}
	}
	if got := told(t, desk, asking("real")); got.Number != 0 {
		t.Errorf("the first pod got %d", got.Number)
	}
}

func TestWhoAsksAgainIsAnsweredTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := newStore(t, deployment(10, wished(tenOf4)))
		desk, began := NewDesk(known, known.replicas, standard(), uncounted()), time.Now()
		for n := range 10 {
			for range 3 {
				if got := told(t, desk, asking(fmt.Sprint(n))); got.Number != n || time.Since(began) > 0 {
					t.Fatalf("request %d got %d after %v", n, got.Number, time.Since(began))
				}
			}
		}
	})
}

func TestOnlyManagedWorkloadsArePlaced(t *testing.T) {
	choosy := deployment(10, wished(tenOf4))
	choosy.Spec.Template.Spec.NodeSelector = map[string]string{capacity: "spot"}
	numberless := wished(tenOf4)
	delete(numberless, "swarm.io/min-on-demand")
	delete(numberless, "swarm.io/spot-percentage")
	for _, c := range []struct {
		reason   string
		workload *appsv1.Deployment
		want     Answer
	}{
		{"two annotations are enough", deployment(10, wished(tenOf4)), Answer{Managed: true, Class: spread.OnDemand}},
		{"nothing said", deployment(10, nil), Answer{}},
		{"enabled without numbers", deployment(10, numberless), Answer{}},
		{"a template that chooses itself", choosy, Answer{}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := told(t, deskFor(newStore(t, c.workload)), asking("r")); got != c.want {
				t.Errorf("told %+v", got)
			}
		})
	}
}

func TestStatefulSetsGoByOrdinal(t *testing.T) {
	policy := spread.Policy{MinOnDemand: 2, SpotPercent: 60}
	for _, c := range []struct {
		reason, pod string
		first       int
		want        Answer
	}{
		{"the first", "db-0", 0, Answer{true, 0, spread.OnDemand}},
		{"the third", "db-2", 0, Answer{true, 2, spread.Spot}},
		{"beyond the replicas, of which nothing is known yet", "db-7", 0, Answer{true, 7, spread.Of(policy, 7)}},
		{"ordinals that begin elsewhere", "db-12", 10, Answer{true, 2, spread.Spot}},
		{"an ordinal before the first", "db-2", 10, Answer{}},
		{"a name without ordinal", "db-x", 0, Answer{}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			desk := deskFor(newStore(t, statefulSet(c.first, wished(policy))))
			for range 2 {
				if got := told(t, desk, Ask{Workload: db, Pod: c.pod, Request: "r"}); got != c.want {
					t.Errorf("told %+v, want %+v", got, c.want)
				}
			}
		})
	}
}

func TestWhichPodsHoldNumbers(t *testing.T) {
	going := numbered("going", "abc", 0, spread.OnDemand)
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	elsewhere := numbered("elsewhere", "abc", 0, spread.OnDemand)
	elsewhere.Namespace = "other"
	for _, c := range []struct {
		reason string
		pods   []*corev1.Pod
		want   int
	}{
		{"none", nil, 0},
		{"those of the ReplicaSet", []*corev1.Pod{numbered("a", "abc", 0, spread.OnDemand), numbered("b", "abc", 2, spread.OnDemand)}, 1},
		{"not those of another ReplicaSet", []*corev1.Pod{numbered("a", "xyz", 0, spread.OnDemand)}, 0},
		{"not those of another namespace", []*corev1.Pod{elsewhere}, 0},
		{"not those on their way out", []*corev1.Pod{going}, 0},
		{"those without a number", []*corev1.Pod{replica("a", "abc", nil), replica("b", "abc", nil)}, 2},
	} {
		t.Run(c.reason, func(t *testing.T) {
			known := newStore(t, deployment(10, wished(tenOf4)))
			for _, pod := range c.pods {
				known.sees(pod)
			}
			if got := told(t, deskFor(known), asking("r")); got.Number != c.want {
				t.Errorf("got %d, want %d", got.Number, c.want)
			}
		})
	}
}

// A pod created without us stands for a number of the class of its node: neither the floor nor spot is filled twice.
func TestPodsMadeWithoutUsCountForTheirNodes(t *testing.T) {
	policy := spread.Policy{MinOnDemand: 2, SpotPercent: 100}
	for _, c := range []struct {
		node *corev1.Node
		want int
	}{
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "some-node", Labels: map[string]string{capacity: "spot"}}}, 0},
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "some-node"}}, 2},
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}}, 2}, // a missing node counts as on-demand
	} {
		known := newStore(t, deployment(10, wished(policy)), c.node, replica("a", "abc", nil), replica("b", "abc", nil))
		if got := told(t, deskFor(known), asking("r")); got.Number != c.want {
			t.Errorf("on %+v: got %d, want %d", c.node.ObjectMeta, got.Number, c.want)
		}
	}
}

// Half of the replicas belong on on-demand nodes. Two pods there stand for numbers 0 and 2, so that the next pod goes to spot.
func TestPodsOfNodesThatAreGoneCountAsOnDemand(t *testing.T) {
	known := newStore(t, deployment(10, wished(spread.Policy{SpotPercent: 50})), replica("a", "abc", nil), replica("b", "abc", nil))
	if got := told(t, deskFor(known), asking("r")); got.Number != 1 || got.Class != spread.Spot {
		t.Errorf("got %+v", got)
	}
}

// Without the pods, or their nodes, any number could be taken.
func TestNoNumberIsTakenWhenPodsOrNodesCannotBeRead(t *testing.T) {
	unread := func(context.Context, survey.Key) ([]*corev1.Pod, error) { return nil, errBroken }
	known := newStore(t, deployment(10, wished(tenOf4)))
	if got, err := NewDesk(known, unread, standard(), uncounted()).Place(t.Context(), asking("r")); !errors.Is(err, errBroken) || got != (Answer{}) {
		t.Errorf("pods cannot be read: told %+v, %v", got, err)
	}
	known.sees(replica("a", "abc", nil))
	nodeless := func(ctx context.Context, of survey.Key) ([]*corev1.Pod, error) {
		pods, err := known.replicas(ctx, of)
		known.fails(errBroken) // for what is read after the pods
		return pods, err
	}
	if got, err := NewDesk(known, nodeless, standard(), uncounted()).Place(t.Context(), asking("r")); !errors.Is(err, errBroken) || got != (Answer{}) {
		t.Errorf("nodes cannot be read: told %+v, %v", got, err)
	}
}

func TestShortagesLeadElsewhere(t *testing.T) {
	policy := spread.Policy{SpotPercent: 100}
	desk := deskFor(newStore(t, deployment(10, wished(policy))))
	closed := spread.ClassStates{Spot: spread.ClassState{Availability: spread.Unavailable, ProbeNumber: spread.Unnumbered}}
	for _, step := range []struct {
		reason string
		change func()
		want   spread.Class
	}{
		{"nothing judged", func() {}, spread.Spot},
		{"no room on spot", func() { desk.Judged(web, closed) }, spread.OnDemand},
		{"no room for another workload", func() { desk.Judged(web, spread.ClassStates{}); desk.Judged(db, closed) }, spread.Spot},
		{"no room again", func() { desk.Judged(web, closed) }, spread.OnDemand},
		{"forgotten", func() { desk.Forget(web) }, spread.Spot},
	} {
		if step.change(); told(t, desk, asking("r")).Class != step.want {
			t.Errorf("%s: not %s", step.reason, step.want)
		}
	}
}

func TestNumbersAreForgotten(t *testing.T) {
	desk, now := deskFor(newStore(t, deployment(10, wished(tenOf4)))), noon
	desk.now = func() time.Time { return now }
	told(t, desk, asking("r"))
	for n, step := range []struct {
		after time.Duration
		kept  int
	}{{grace, 2}, {grace, 2}, {grace, 1}} {
		now = now.Add(step.after)
		told(t, desk, Ask{Workload: web, Hash: "xyz", Request: fmt.Sprint(n)})
		if len(desk.given) != step.kept {
			t.Errorf("after %v more the numbers of %d ReplicaSets are kept", step.after, len(desk.given))
		}
	}
	if desk.Forget(web); len(desk.given) > 0 || len(desk.shortages) > 0 {
		t.Errorf("a forgotten workload is remembered: %v", desk.given)
	}
}

func TestNumberWithoutPodIsGivenAgain(t *testing.T) {
	desk, now := deskFor(newStore(t, deployment(10, wished(tenOf4)))), noon
	desk.now = func() time.Time { return now }
	told(t, desk, asking("lost"))
	if got := told(t, desk, asking("next")).Number; got != 1 {
		t.Errorf("within grace: %d", got)
	}
	now = now.Add(grace)
	if got := told(t, desk, asking("later")).Number; got != 0 {
		t.Errorf("after grace: %d", got)
	}
}

// A pod may come and go between two requests. Its number is free at once.
func TestPodsThatComeAndGoHoldNothing(t *testing.T) {
	known, watched := newStore(t, deployment(10, wished(tenOf4))), &informertest.FakeInformers{}
	desk := deskFor(known)
	if err := desk.Follow(t.Context(), watched); err != nil {
		t.Fatal(err)
	}
	pods, err := watched.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	stranger, orphan := replica("s", "abc", nil), numbered("o", "abc", 1, spread.OnDemand)
	orphan.OwnerReferences = nil
	for n, step := range []struct {
		appears []*corev1.Pod
		want    int
	}{
		{nil, 0},
		{[]*corev1.Pod{numbered("a", "abc", 0, spread.OnDemand)}, 0},
		{[]*corev1.Pod{numbered("b", "xyz", 0, spread.OnDemand), stranger}, 1},
		{[]*corev1.Pod{orphan}, 2},
	} {
		for _, pod := range step.appears {
			pods.Add(pod)
		}
		if got := told(t, desk, asking(fmt.Sprint(n))).Number; got != step.want {
			t.Errorf("step %d: got %d, want %d", n, got, step.want)
		}
	}
}

func TestCacheThatIsLateIsWaitedFor(t *testing.T) {
	full := []*corev1.Pod{numbered("a", "abc", 0, spread.OnDemand), numbered("b", "abc", 1, spread.OnDemand)}
	for _, c := range []struct {
		reason string
		has    *appsv1.Deployment // nil for none yet
		comes  func(*store)       // after 100 ms
		want   Answer
		waited time.Duration
	}{
		{"a pod that is gone", deployment(2, wished(tenOf4)), func(c *store) { c.loses("a") }, Answer{true, 0, spread.OnDemand}, 100 * time.Millisecond},
		{"more replicas", deployment(2, wished(tenOf4)), func(c *store) { c.sees(deployment(3, wished(tenOf4))) }, Answer{true, 2, spread.OnDemand}, 100 * time.Millisecond},
		{"a workload that is new", nil, func(c *store) { c.sees(deployment(3, wished(tenOf4))) }, Answer{true, 2, spread.OnDemand}, 100 * time.Millisecond},
		{"a workload that is no more managed", deployment(2, wished(tenOf4)), func(c *store) { c.sees(deployment(2, nil)) }, Answer{}, 100 * time.Millisecond},
		{"nothing", deployment(2, wished(tenOf4)), func(*store) {}, Answer{true, 2, spread.OnDemand}, patience},
		{"no workload", nil, func(*store) {}, Answer{}, patience},
	} {
		t.Run(c.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				known := newStore(t, full[0], full[1])
				if c.has != nil {
					known.sees(c.has)
				}
				time.AfterFunc(100*time.Millisecond-time.Nanosecond, func() { c.comes(known) })
				began := time.Now()
				if got := told(t, NewDesk(known, known.replicas, standard(), uncounted()), asking("r")); got != c.want {
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
func TestOneThatWaitsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := newStore(t, deployment(1, wished(tenOf4)), statefulSet(0, wished(tenOf4)), numbered("a", "abc", 0, spread.OnDemand))
		desk, first := NewDesk(known, known.replicas, standard(), uncounted()), make(chan Answer)
		go func() {
			answer, _ := desk.Place(t.Context(), asking("waits"))
			first <- answer
		}()
		synctest.Wait()
		began := time.Now()
		told(t, desk, Ask{Workload: db, Pod: "db-0"})
		if got := told(t, desk, Ask{Workload: web, Hash: "xyz", Request: "next rollout"}); got.Number != 0 || time.Since(began) > 0 {
			t.Errorf("told %+v after %v", got, time.Since(began))
		}
		if got := <-first; got.Number != 1 {
			t.Errorf("the one that waited was told %+v", got)
		}
	})
}

func TestNumberOfAPodThatWasRefusedElsewhereIsGivenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := newStore(t, deployment(2, wished(tenOf4)))
		desk := NewDesk(known, known.replicas, standard(), uncounted())
		for _, request := range []string{"refused", "late"} {
			told(t, desk, asking(request))
		}
		time.Sleep(overdue)
		for n, request := range []string{"next", "last", "next"} {
			if got := told(t, desk, asking(request)); got.Number != n%2 {
				t.Errorf("%s got %d", request, got.Number)
			}
		}
	})
}

func TestWhoGoesAwayTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := newStore(t, deployment(1, wished(tenOf4)), numbered("a", "abc", 0, spread.OnDemand))
		desk := NewDesk(known, known.replicas, standard(), uncounted())
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := desk.Place(ctx, asking("gone")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("told %v", err)
		}
		if got := told(t, desk, asking("next")); got.Number != 1 {
			t.Errorf("the next got %d", got.Number)
		}
	})
}

func TestFailuresAreTold(t *testing.T) {
	known := newStore(t, deployment(1, wished(tenOf4)))
	known.fails(errBroken)
	for _, workload := range []survey.Key{web, db} {
		if _, err := deskFor(known).Place(t.Context(), Ask{Workload: workload, Pod: "db-0", Hash: "abc"}); !errors.Is(err, errBroken) {
			t.Errorf("%s: told %v", workload, err)
		}
	}
}

func TestBurstOf50IsExact(t *testing.T) {
	for _, policy := range []spread.Policy{tenOf4, {MinOnDemand: 2, SpotPercent: 60}, {SpotPercent: 50}} {
		known, answers := newStore(t, deployment(50, wished(policy))), make(chan Answer)
		desk := deskFor(known)
		for n := range 50 {
			go func() {
				name := fmt.Sprint(n)
				answer, err := desk.Place(t.Context(), asking(name))
				if err != nil {
					t.Error(err)
				}
				if n%2 == 0 { // half of them are seen at once, the others never
					known.sees(numbered(name, "abc", answer.Number, answer.Class))
				}
				answers <- answer
			}()
		}
		pods, numbers := map[string]Answer{}, []int{}
		for n := range 50 {
			answer := <-answers
			pods[fmt.Sprint(n)], numbers = answer, append(numbers, answer.Number)
		}
		slices.Sort(numbers)
		if distinct := len(slices.Compact(numbers)); distinct != 50 || mix(pods) != spread.DesiredDistribution(policy, 50) {
			t.Errorf("%v: %d numbers, %v", policy, distinct, mix(pods))
		}
	}
}

// A ReplicaSet of 200 that lacks one pod, as in the middle of a large rollout.
func BenchmarkPlace(b *testing.B) {
	known := newStore(b, deployment(200, wished(tenOf4)))
	for n := range 199 {
		known.sees(numbered(fmt.Sprintf("web-abc-%d", n), "abc", n, spread.Of(tenOf4, n)))
	}
	desk := deskFor(known)
	b.ReportAllocs()
	for b.Loop() {
		if got := told(b, desk, asking("r")); got.Number != 199 {
			b.Fatalf("told %+v", got)
		}
	}
}

func TestQuestionsThatNoAPIServerAsksAreRefused(t *testing.T) {
	for reason, ask := range map[string]Ask{
		"UID of the request":     {Workload: web, Hash: "abc", Request: strings.Repeat("x", maxUID+1)},
		"not a label value":      {Workload: web, Hash: strings.Repeat("x", 64), Request: "r"},
		"name of the pod is too": {Workload: web, Hash: "abc", Request: "r", Pod: strings.Repeat("x", 254)},
	} {
		known := newStore(t, deployment(10, wished(tenOf4)))
		desk := NewDesk(known, known.replicas, standard(), uncounted())
		if _, err := desk.Place(t.Context(), ask); err == nil || !strings.Contains(err.Error(), reason) || len(desk.given) > 0 {
			t.Errorf("%s: %v, %d remembered", reason, err, len(desk.given))
		}
	}
}

// Anyone who reaches the webhook can request pods of any template, any number of times.
func TestWhatIsRememberedOfADeploymentIsBounded(t *testing.T) {
	const replicas = 10
	known := newStore(t, deployment(replicas, wished(tenOf4)))
	desk := NewDesk(known, known.replicas, standard(), uncounted())
	desk.now = func() time.Time { return noon }
	for n := range 2 * maxTemplates {
		ask := Ask{Workload: web, Hash: fmt.Sprint("template", n), Request: fmt.Sprint(n)}
		if got := told(t, desk, ask); got.Number != 0 || !got.Managed {
			t.Errorf("the first pod of a template got %v", got)
		}
	}
	if len(desk.given) != maxTemplates {
		t.Errorf("%d templates are remembered", len(desk.given))
	}
	numbers := desk.given[replicaSet{web, "template0"}]
	for n := range 3 * maxOutstanding(replicas) {
		numbers.Reserve(fmt.Sprint("flood", n), noon)
		if numbers.CountReservations(noon) == maxOutstanding(replicas) {
			break
		}
	}
	told(t, desk, Ask{Workload: web, Hash: "template0", Request: "one more"})
	if got := numbers.CountReservations(noon); got != maxOutstanding(replicas) {
		t.Errorf("%d numbers are outstanding, at most %d are allowed", got, maxOutstanding(replicas))
	}
	if _, given := numbers.ReservedNumber("one more", noon); given {
		t.Error("a number beyond the limit is remembered")
	}
}
