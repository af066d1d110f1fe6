package swarm

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// listObjects returns all existing objects of a swarm, by name, and the replicas of its StatefulSets.
func (e *environment) listObjects(t *testing.T) (all []string, replicas map[string]int32) {
	t.Helper()
	sets, agents, services, configs := &appsv1.StatefulSetList{}, &v1alpha1.AgentList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}
	replicas = map[string]int32{}
	for _, list := range []client.ObjectList{sets, agents, services, configs} {
		if err := e.client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			all = append(all, identity(item.(client.Object)))
			return nil
		})
	}
	for n := range sets.Items {
		replicas[sets.Items[n].Name] = *sets.Items[n].Spec.Replicas
	}
	slices.Sort(all)
	return all, replicas
}

// makeReady makes every pod and every agent of the swarm ready.
func (e *environment) makeReady(t *testing.T) {
	t.Helper()
	sets, agents := &appsv1.StatefulSetList{}, &v1alpha1.AgentList{}
	if err := errors.Join(e.client.List(t.Context(), sets), e.client.List(t.Context(), agents)); err != nil {
		t.Fatal(err)
	}
	for n := range sets.Items {
		sets.Items[n].Status.ReadyReplicas = *sets.Items[n].Spec.Replicas
		if err := e.client.Status().Update(t.Context(), &sets.Items[n]); err != nil {
			t.Fatal(err)
		}
	}
	for n := range agents.Items {
		agents.Items[n].Status.Conditions = []metav1.Condition{v1alpha1.Ready(1, "Linked", "")}
		if err := e.client.Status().Update(t.Context(), &agents.Items[n]); err != nil {
			t.Fatal(err)
		}
	}
}

func mustReconcile(t *testing.T, r *reconciler, e *environment) *v1alpha1.Swarm {
	t.Helper()
	if result, err := r.Reconcile(t.Context(), e.getSwarm(t)); err != nil || result != kit.Done() {
		t.Fatalf("got %+v, %v", result, err)
	}
	return e.getSwarm(t)
}

func readyCondition(swarm *v1alpha1.Swarm) string {
	ready := meta.FindStatusCondition(swarm.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return ""
	}
	return string(ready.Status) + " " + ready.Reason
}

func TestSwarmIsMadeAndShown(t *testing.T) {
	task := newTask("research", "t")
	task.Status.Phase = v1alpha1.TaskRunning
	r, e := newEnvironment(t, interceptor.Funcs{}, newSwarm(nil), task, newTask("other", "u"))
	swarm := mustReconcile(t, r, e)
	all, replicas := e.listObjects(t)
	if len(all) != 7 || replicas["research-coder"] != 2 || replicas["research-analyst"] != 1 {
		t.Errorf("made %v, %v", all, replicas)
	}
	if readyCondition(swarm) != "False Initializing" || swarm.Status.Phase != v1alpha1.SwarmPhaseInitializing {
		t.Errorf("Ready %q, phase %q", readyCondition(swarm), swarm.Status.Phase)
	}
	e.makeReady(t)
	swarm = mustReconcile(t, r, e)
	type shown struct {
		ready                         string
		phase                         v1alpha1.SwarmPhase
		replicas, active, readyAgents int32
		tasks                         *v1alpha1.TaskCounts
	}
	status := swarm.Status
	got := shown{readyCondition(swarm), status.Phase, status.Replicas, status.ActiveAgents, status.ReadyAgents, status.Tasks}
	want := shown{"True Available", v1alpha1.SwarmPhaseRunning, 3, 3, 3, &v1alpha1.TaskCounts{Running: 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	mustReconcile(t, r, e)
	if types := e.getSwarm(t).Status.Types; len(types) != 2 || types[0].Ready != 2 || types[0].Desired != 2 {
		t.Errorf("types %+v", types)
	}
}

// An agent without the CA could trust no server.
func TestNothingIsMadeBeforeThereIsACA(t *testing.T) {
	r, e := newEnvironment(t, interceptor.Funcs{}, newSwarm(nil))
	r.settings = func(context.Context) manifest.Settings { return manifest.Settings{} }
	if result, err := r.Reconcile(t.Context(), e.getSwarm(t)); err != nil ||
		result != kit.RequeueAfter(missingCARetryInterval, "NoAuthority") {
		t.Errorf("got %+v, %v", result, err)
	}
	if all, _ := e.listObjects(t); len(all) != 0 {
		t.Errorf("made %v", all)
	}
}

func TestScalingInWaitsForTheAgentThatWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := newEnvironment(t, interceptor.Funcs{}, newSwarm(nil))
		mustReconcile(t, r, e)
		attempt := e.startTask(t, newTask("research", "a")) // on research-coder-0
		e.makeReady(t)
		smaller := e.getSwarm(t)
		smaller.Spec.Mode = v1alpha1.SwarmSuspended
		if err := e.client.Update(t.Context(), smaller); err != nil {
			t.Fatal(err)
		}
		mustReconcile(t, r, e)
		all, replicas := e.listObjects(t)
		if replicas["research-coder"] != 1 || replicas["research-analyst"] != 0 || !slices.Contains(all, "*v1alpha1.Agent research-coder-0") {
			t.Errorf("replicas %v, %v: the first coder still works", replicas, all)
		}
		e.dispatcher.Forget(types.NamespacedName{Namespace: "demo", Name: "a"})
		e.finishAttempt(attempt)
		swarm := mustReconcile(t, r, e)
		if all, replicas = e.listObjects(t); replicas["research-coder"] != 0 || slices.Contains(all, "*v1alpha1.Agent research-coder-0") {
			t.Errorf("replicas %v, %v: no agent works", replicas, all)
		}
		if readyCondition(swarm) != "False Suspended" {
			t.Errorf("Ready %q", readyCondition(swarm))
		}
	})
}

func TestRejectedWriteIsReportedAndRetried(t *testing.T) {
	refused := errors.New("quota exceeded")
	hooks := interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return refused
	}}
	r, e := newEnvironment(t, hooks, newSwarm(nil))
	if _, err := r.Reconcile(t.Context(), e.getSwarm(t)); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	degraded := meta.FindStatusCondition(e.getSwarm(t).Status.Conditions, v1alpha1.ConditionDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue || degraded.Reason != string(v1alpha1.ReasonApplyFailed) {
		t.Errorf("got %+v", degraded)
	}
}

func TestStatusThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	refused := errors.New("refused")
	hooks := interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
		...client.SubResourcePatchOption) error {
		return refused
	}}
	r, e := newEnvironment(t, hooks, newSwarm(nil))
	if _, err := r.Reconcile(t.Context(), e.getSwarm(t)); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

// The status quotes the first failing agent. A cache lists agents in any order, and the message must not depend on it.
func TestAgentsAreReadInTheSameOrder(t *testing.T) {
	hooks := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
		options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		if agents, ok := list.(*v1alpha1.AgentList); ok {
			slices.Reverse(agents.Items)
		}
		return err
	}}
	r, e := newEnvironment(t, hooks, newSwarm(nil))
	mustReconcile(t, r, e)
	snapshot, err := r.observe(t.Context(), desiredSwarm(e.getSwarm(t), manifest.Settings{Authority: "PEM"}))
	if err != nil || len(snapshot.agents) != 3 || snapshot.agents[0].Name != "research-analyst-0" {
		t.Errorf("got %v, %v", snapshot.agents, err)
	}
}

func TestWhatIsNoLongerWantedIsDeletedByItsUID(t *testing.T) {
	for reason, c := range map[string]struct {
		err   error
		fails bool
	}{
		"deleted":              {nil, false},
		"already gone":         {notFound("research-coder-1"), false},
		"another of that name": {conflict("research-coder-1"), false},
		"refused":              {errors.New("refused"), true},
	} {
		t.Run(reason, func(t *testing.T) {
			var named []types.UID
			r, _ := newEnvironment(t,
				interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
					named = append(named, *(&client.DeleteOptions{}).ApplyOptions(options).Preconditions.UID)
					return c.err
				}})
			agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "research-coder-1", UID: "uid-of-agent"}}
			err := r.apply(t.Context(), newSwarm(nil), Plan{Delete: []client.Object{agent}})
			if (err != nil) != c.fails || len(named) != 1 || named[0] != "uid-of-agent" {
				t.Errorf("got %v, named %v", err, named)
			}
		})
	}
}

func TestFailedReadChangesNothing(t *testing.T) {
	refused := errors.New("refused")
	for reason, hooks := range map[string]interceptor.Funcs{
		"lists": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused }},
		"service": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if _, ok := object.(*corev1.Service); ok {
				return refused
			}
			return c.Get(ctx, key, object, options...)
		}},
	} {
		t.Run(reason, func(t *testing.T) {
			hooks.Apply = func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				t.Error("applied")
				return nil
			}
			r, e := newEnvironment(t, hooks, newSwarm(nil))
			if _, err := r.Reconcile(t.Context(), e.getSwarm(t)); !errors.Is(err, refused) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNewCAConcernsEverySwarm(t *testing.T) {
	other := newSwarm(nil)
	other.Name = "other"
	r, _ := newEnvironment(t, interceptor.Funcs{}, newSwarm(nil), other)
	if got := r.allSwarms(t.Context(), nil); len(got) != 2 || got[0].Name != "other" || got[1].Name != "research" {
		t.Errorf("got %v", got)
	}
}

func TestAgentsThatFailAreNamed(t *testing.T) {
	failing := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: "research-coder-0"}}
	failing.Status.Phase, failing.Status.Conditions = v1alpha1.AgentFailed, []metav1.Condition{v1alpha1.NotReady(1, "CrashLoop", "exit 1")}
	if got := failingAgents([]v1alpha1.Agent{{}, failing, failing}); got != "2 of 3 agents do not start; research-coder-0: exit 1" {
		t.Errorf("got %q", got)
	}
	if got := failingAgents([]v1alpha1.Agent{{}}); got != "" {
		t.Errorf("got %q", got)
	}
}
