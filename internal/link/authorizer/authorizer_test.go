package authorizer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

var testAgent = link.Agent{Namespace: "ns", Name: "s-coder-0"}

// A recordingConsumer records what reaches it.
type recordingConsumer struct {
	joined   []*linkv1.Hello
	received []*linkv1.AgentMessage
}

func (c *recordingConsumer) Joined(_ link.Agent, _ string, hello *linkv1.Hello) error {
	c.joined = append(c.joined, hello)
	return nil
}
func (c *recordingConsumer) Received(_ link.Agent, message *linkv1.AgentMessage) {
	c.received = append(c.received, message)
}
func (c *recordingConsumer) Left(link.Agent) {}

type namespaces map[string]bool

func (n namespaces) IncludesNamed(_ context.Context, _ client.Reader, name string) (bool, error) {
	return n[name], nil
}

// objects are those of an honest agent.
type objects struct {
	swarm *v1alpha1.Swarm
	agent *v1alpha1.Agent
	set   *appsv1.StatefulSet
	pod   *corev1.Pod
}

func validObjects() objects {
	swarm := &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "swarm"}}
	set := &appsv1.StatefulSet{ObjectMeta: controlledMeta("s-coder", "set", v1alpha1.GroupVersion.String(), "Swarm", swarm)}
	return objects{
		swarm: swarm, set: set,
		agent: &v1alpha1.Agent{
			ObjectMeta: controlledMeta(testAgent.Name, "agent", v1alpha1.GroupVersion.String(), "Swarm", swarm),
			Spec:       v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: swarm.Name}},
		},
		pod: &corev1.Pod{ObjectMeta: controlledMeta(testAgent.Name, "pod", "apps/v1", "StatefulSet", set)},
	}
}

func controlledMeta(name string, uid types.UID, version, kind string, owner client.Object) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes},
	}}
}

func (o objects) list() []client.Object {
	var all []client.Object
	if o.swarm != nil {
		all = append(all, o.swarm)
	}
	if o.agent != nil {
		all = append(all, o.agent)
	}
	if o.set != nil {
		all = append(all, o.set)
	}
	if o.pod != nil {
		all = append(all, o.pod)
	}
	return all
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

func newClient(o objects) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(o.list()...).WithStatusSubresource(&v1alpha1.Agent{}).Build()
}

// newAuthorizer uses a cache and an API server that may differ.
func newAuthorizer(cached, stored objects) (*Authorizer, *recordingConsumer) {
	recorder := &recordingConsumer{}
	return New(Config{Cache: newClient(cached), Live: newClient(stored), Scope: namespaces{"ns": true}, Next: recorder}), recorder
}

func TestOnlyPodsOfASwarmJoin(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*objects)
		podUID string
		joins  bool
	}{
		"an agent":                 {joins: true},
		"its Agent object is gone": {change: func(o *objects) { o.agent = nil }, joins: true},
		"the pod was orphaned, and was linked before": {change: func(o *objects) {
			o.pod.OwnerReferences, o.agent.Status.LinkedPodUID = nil, "pod"
		}, joins: true},
		"the pod is gone, and was linked before": {change: func(o *objects) { o.pod, o.agent.Status.LinkedPodUID = nil, "pod" },
			joins: true},
		"any pod":                                  {change: func(o *objects) { o.pod.OwnerReferences = nil }},
		"the pod is gone":                          {change: func(o *objects) { o.pod = nil }},
		"another pod of the name":                  {podUID: "another"},
		"there is no swarm":                        {change: func(o *objects) { o.swarm = nil }},
		"an Agent object of a user":                {change: func(o *objects) { o.agent.OwnerReferences = nil }},
		"an Agent object of an earlier swarm":      {change: func(o *objects) { o.swarm.UID = "recreated" }},
		"an Agent object that names another swarm": {change: func(o *objects) { o.agent.Spec.SwarmRef.Name = "other" }},
		"that, of a pod that was linked before": {change: func(o *objects) {
			o.agent.Spec.SwarmRef.Name, o.agent.Status.LinkedPodUID = "other", "pod"
		}},
		"a StatefulSet of a user":                   {change: func(o *objects) { o.set.OwnerReferences = nil }},
		"a StatefulSet of another UID":              {change: func(o *objects) { o.set.UID = "recreated" }},
		"a pod of a Deployment":                     {change: func(o *objects) { o.pod.OwnerReferences[0].Kind = "ReplicaSet" }},
		"neither Agent object nor a pod of the set": {change: func(o *objects) { o.agent, o.pod.OwnerReferences = nil, nil }},
		"an orphan, and another pod was linked before": {change: func(o *objects) {
			o.pod.OwnerReferences, o.agent.Status.LinkedPodUID = nil, "other"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			stored, podUID := validObjects(), "pod"
			if c.change != nil {
				c.change(&stored)
			}
			if c.podUID != "" {
				podUID = c.podUID
			}
			for cacheState, cached := range map[string]objects{"current": stored, "empty": {}} {
				a, recorder := newAuthorizer(cached, stored)
				err := a.Joined(testAgent, podUID, &linkv1.Hello{Swarm: "s"})
				if (err == nil) != c.joins || (len(recorder.joined) == 1) != c.joins {
					t.Errorf("cache is %s: error %v, %d have joined", cacheState, err, len(recorder.joined))
				}
			}
		})
	}
}

func TestNamespaceOutOfScopeIsRefused(t *testing.T) {
	a, recorder := newAuthorizer(validObjects(), validObjects())
	a.config.Scope = namespaces{}
	if err := a.Joined(testAgent, "pod", &linkv1.Hello{Swarm: "s"}); !errors.As(err, &denial{}) || len(recorder.joined) > 0 {
		t.Errorf("error %v", err)
	}
}

// A refused pod costs no requests for a while. A pod that could not be looked up is looked up again at once.
func TestRefusalsAreRemembered(t *testing.T) {
	reads, readErr := 0, error(nil)
	stored := interceptor.NewClient(newClient(objects{}), interceptor.Funcs{
		Get: func(ctx context.Context, from client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			reads++
			if readErr != nil {
				return readErr
			}
			return from.Get(ctx, key, into, options...)
		},
	})
	a, _ := newAuthorizer(objects{}, objects{})
	a.config.Live = stored
	readErr = errors.New("away")
	for range 2 {
		if err := a.Joined(testAgent, "pod", &linkv1.Hello{Swarm: "s"}); !errors.Is(err, readErr) {
			t.Fatalf("error %v", err)
		}
	}
	readErr, reads = nil, 0
	for range 10 {
		if err := a.Joined(testAgent, "pod", &linkv1.Hello{Swarm: "s"}); !errors.As(err, &denial{}) {
			t.Fatalf("error %v", err)
		}
	}
	if reads != 1 {
		t.Errorf("%d reads past the cache, want 1", reads)
	}
}

// Pods of one namespace that are not agents use up its share of the reads past the cache. New agents of another namespace,
// which are not in the cache yet, join without waiting, and all namespaces together read no more than liveReadsPerSecond.
func TestUnknownPodsDoNotUseUpReadsOfOtherNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		stored, reads := newClient(validObjects()), atomic.Int32{}
		a, recorder := newAuthorizer(objects{}, objects{})
		a.config.Scope = namespaces{"ns": true, "hostile": true}
		a.config.Live = interceptor.NewClient(stored, interceptor.Funcs{
			Get: func(_ context.Context, from client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				reads.Add(1)
				return from.Get(ctx, key, into, options...)
			},
		})
		start := time.Now()
		for n := range 2000 {
			go func() {
				stranger := link.Agent{Namespace: "hostile", Name: fmt.Sprint("pod-", n)}
				_ = a.Joined(stranger, stranger.Name, &linkv1.Hello{Swarm: "s"})
			}()
		}
		synctest.Wait()
		before := time.Now()
		if err := a.Joined(testAgent, "pod", &linkv1.Hello{Swarm: "s"}); err != nil || len(recorder.joined) != 1 {
			t.Errorf("error %v, %d have joined", err, len(recorder.joined))
		}
		if waited := time.Since(before); waited > 0 {
			t.Errorf("an agent of another namespace waited for %s", waited)
		}
		time.Sleep(2 * readTimeout)
		synctest.Wait()
		if most := 2*liveReadsPerSecond + liveReadsPerSecond*int(time.Since(start).Seconds()); int(reads.Load()) > most {
			t.Errorf("%d reads past the cache, want at most %d", reads.Load(), most)
		}
	})
}

func attempt(namespace string) *linkv1.Attempt {
	return &linkv1.Attempt{Namespace: namespace, Task: "t", TaskUid: "u", Attempt: 1, Epoch: 7}
}

func TestAgentsReportOnlyForTheirNamespace(t *testing.T) {
	a, recorder := newAuthorizer(validObjects(), validObjects())
	if err := a.Joined(testAgent, "pod", &linkv1.Hello{
		Swarm: "s", Slots: 1 << 20, Running: []*linkv1.Attempt{attempt("victim"), attempt("ns"), nil, {Namespace: "ns"}},
		Unacknowledged: []*linkv1.Result{{Attempt: attempt("victim")}, {Attempt: attempt("ns"), Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED}, nil},
	}); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"victim", "ns"} {
		a.Received(testAgent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: &linkv1.Result{Attempt: attempt(namespace)}}})
		a.Received(testAgent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: &linkv1.Progress{Attempt: attempt(namespace)}}})
	}
	hello := recorder.joined[0]
	if len(hello.GetRunning()) != 1 || len(hello.GetUnacknowledged()) != 1 || hello.GetSlots() != maxSlots {
		t.Errorf("passed on %v", hello)
	}
	if len(recorder.received) != 2 || recorder.received[0].GetResult().GetAttempt().GetNamespace() != "ns" ||
		recorder.received[1].GetProgress() == nil {
		t.Errorf("passed on %v", recorder.received)
	}
}

// manyAttempts returns attempts of as many tasks.
func manyAttempts(count int) []*linkv1.Attempt {
	var attempts []*linkv1.Attempt
	for n := range count {
		next := attempt("ns")
		next.TaskUid = fmt.Sprint(n)
		attempts = append(attempts, next)
	}
	return attempts
}

func TestAgentsRunNoMoreThanTheyCan(t *testing.T) {
	lowered, item := validObjects(), attempt("ns")
	lowered.agent.Spec.Slots = 1
	item.Item, item.Epoch = proto.Int32(1), 8
	other := attempt("ns")
	other.Epoch = 8
	for name, c := range map[string]struct {
		slots   int32
		running []*linkv1.Attempt
		joins   bool
	}{
		"all slots are taken":         {1000, manyAttempts(1000), true},
		"more than any agent can run": {1 << 20, manyAttempts(1001), false},
		"more than there are slots":   {2, manyAttempts(2 + extraRunning + 1), false},
		"items of one task":           {2, []*linkv1.Attempt{attempt("ns"), item}, true},
		"two attempts of one task":    {2, []*linkv1.Attempt{attempt("ns"), other}, false},
	} {
		a, recorder := newAuthorizer(lowered, lowered)
		err := a.Joined(testAgent, "pod", &linkv1.Hello{Swarm: "s", Slots: c.slots, Running: c.running})
		if (err == nil) != c.joins || (len(recorder.joined) == 1) != c.joins || !c.joins && !errors.As(err, &denial{}) {
			t.Errorf("%s: error %v, %d have joined", name, err, len(recorder.joined))
		}
	}
}

func TestResultsAreBounded(t *testing.T) {
	outcomeFailed, outcomeSucceeded := linkv1.Outcome_OUTCOME_FAILED, linkv1.Outcome_OUTCOME_SUCCEEDED
	for name, c := range map[string]struct{ said, want *linkv1.Result }{
		"as it should be": {
			&linkv1.Result{Outcome: outcomeSucceeded, Value: []byte(strings.Repeat("1", 4096)), Message: "fine"},
			&linkv1.Result{Outcome: outcomeSucceeded, Value: []byte(strings.Repeat("1", 4096)), Message: "fine"},
		},
		"a value that is too large": {
			&linkv1.Result{Outcome: outcomeSucceeded, Value: make([]byte, 4097)},
			&linkv1.Result{Outcome: outcomeFailed, Reason: "ResultTooLarge",
				Message: "the result has 4097 bytes, the limit is 4096: store it elsewhere and return where it is"},
		},
		"an outcome from nowhere": {
			&linkv1.Result{Outcome: 77, Value: []byte("1")},
			&linkv1.Result{Outcome: outcomeFailed, Reason: "AttemptFailed",
				Message: "the agent reported outcome 77, which this operator does not know"},
		},
		"no outcome": {
			&linkv1.Result{},
			&linkv1.Result{Outcome: outcomeFailed, Reason: "AttemptFailed",
				Message: "the agent reported outcome 0, which this operator does not know"},
		},
		"long texts": {
			&linkv1.Result{Outcome: outcomeFailed, Reason: strings.Repeat("R", 129), Message: strings.Repeat("ä", 4096) + "why"},
			&linkv1.Result{Outcome: outcomeFailed, Message: strings.Repeat("ä", 2046) + "why"},
		},
	} {
		a, recorder := newAuthorizer(validObjects(), validObjects())
		for _, result := range []*linkv1.Result{c.said, c.want} {
			result.Attempt = attempt("ns")
		}
		a.Received(testAgent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: proto.CloneOf(c.said)}})
		if diff := cmp.Diff(c.want, recorder.received[0].GetResult(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := a.Joined(testAgent, "pod", &linkv1.Hello{Swarm: "s", Unacknowledged: []*linkv1.Result{c.said}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]*linkv1.Result{c.want}, recorder.joined[0].GetUnacknowledged(), protocmp.Transform()); diff != "" {
			t.Errorf("%s, in Hello: %s", name, diff)
		}
	}
}

func TestProgressIsBounded(t *testing.T) {
	a, recorder := newAuthorizer(validObjects(), validObjects())
	said := &linkv1.Progress{Attempt: attempt("ns"), Message: strings.Repeat("a", 4096) + "now"}
	a.Received(testAgent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: said}})
	if got, want := recorder.received[0].GetProgress().GetMessage(), strings.Repeat("a", 4093)+"now"; got != want {
		t.Errorf("passed on %d bytes that end with %q", len(got), got[len(got)-3:])
	}
}

// Names from an agent are remembered: results of unknown tasks, and the process that holds an attempt.
func TestInvalidNamesAreRefused(t *testing.T) {
	a, recorder := newAuthorizer(validObjects(), validObjects())
	long, unknown := strings.Repeat("n", 254), attempt("ns")
	unknown.ProtoReflect().SetUnknown(make([]byte, 1<<20))
	for name, c := range map[string]struct {
		attempt *linkv1.Attempt
		passes  bool
	}{
		"a task":              {&linkv1.Attempt{Namespace: "ns", Task: long, TaskUid: "u", Epoch: 7}, false},
		"a UID":               {&linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: strings.Repeat("u", 65), Epoch: 7}, false},
		"names that can be":   {&linkv1.Attempt{Namespace: "ns", Task: long[1:], TaskUid: strings.Repeat("u", 64), Epoch: 7}, true},
		"fields from nowhere": {unknown, true},
	} {
		recorder.received = nil
		a.Received(testAgent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: &linkv1.Result{Attempt: c.attempt}}})
		if passed := len(recorder.received) == 1; passed != c.passes ||
			passed && proto.Size(recorder.received[0].GetResult().GetAttempt()) > 512 {
			t.Errorf("%s: passed on %t", name, passed)
		}
	}
	for name, hello := range map[string]*linkv1.Hello{
		"a swarm": {Swarm: long}, "a process": {Swarm: "s", Process: strings.Repeat("p", 65)},
	} {
		other, recorder := newAuthorizer(validObjects(), validObjects())
		if err := other.Joined(testAgent, "pod", hello); !errors.As(err, &denial{}) || len(err.Error()) > 200 || len(recorder.joined) > 0 {
			t.Errorf("%s joins: %.200v", name, err)
		}
	}
	if err := a.Joined(testAgent, "pod", &linkv1.Hello{Swarm: "s", Process: strings.Repeat("p", 64)}); err != nil {
		t.Error(err)
	}
}
