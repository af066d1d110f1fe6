package swarm

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// changeLeader gives the reconciler the empty memory of a new leader, whose term has not begun.
func (e *environment) changeLeader(r *reconciler) {
	e.dispatcher = dispatch.New(dispatch.Config{
		Lease: 15 * time.Second, Leadership: e, Tasks: e, Agents: e, Swarms: e, Metrics: prometheus.NewRegistry(),
	})
	e.dispatcher.Connect(silentLink{e})
	r.dispatcher = e.dispatcher
}

// silentLink is a link on which no agent has been heard.
type silentLink struct{ *environment }

func (silentLink) LastHeard(link.Agent) (time.Time, bool) { return time.Time{}, false }

// openTerm begins the term with one pod, which has not reported what it runs.
func (e *environment) openTerm(pod string) {
	agent := v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: pod},
		Spec:       v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "research"}},
		Status:     v1alpha1.AgentStatus{LinkedPodUID: "pod-uid", LeaseSeconds: 15},
	}
	e.dispatcher.Open(dispatch.Snapshot{Agents: []v1alpha1.Agent{agent}, Pods: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: pod, UID: "pod-uid", Labels: map[string]string{v1alpha1.LabelSwarm: "research"},
	}}}})
}

// A new leader does not know what agents hold: scale-in waits until it does.
func TestScalingInWaitsUntilTheAgentsHaveReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		swarm := newSwarm(nil)
		r, e := newEnvironment(t, interceptor.Funcs{}, swarm)
		if _, err := r.Reconcile(t.Context(), e.getSwarm(t)); err != nil {
			t.Fatal(err)
		}
		before, sizes := e.listObjects(t)
		fewer := e.getSwarm(t)
		fewer.Spec.Replicas, fewer.Spec.Agents = new(int32(1)), fewer.Spec.Agents[:1]
		if err := e.client.Update(t.Context(), fewer); err != nil {
			t.Fatal(err)
		}
		e.changeLeader(r)
		steps := map[string]func(){
			"the term is not open":   func() {},
			"an agent is not heard":  func() { e.openTerm("research-coder-1") },
			"a lease has not passed": func() { time.Sleep(15 * time.Second) },
		}
		for _, step := range []string{"the term is not open", "an agent is not heard", "a lease has not passed"} {
			steps[step]()
			if _, err := r.Reconcile(t.Context(), e.getSwarm(t)); err != nil {
				t.Fatal(err)
			}
			if after, replicas := e.listObjects(t); !slices.Equal(after, before) || replicas["research-coder"] != sizes["research-coder"] {
				t.Errorf("%s, and %v with %v is left of %v with %v", step, after, replicas, before, sizes)
			}
		}
		time.Sleep(2 * time.Second)
		if _, err := r.Reconcile(t.Context(), e.getSwarm(t)); err != nil {
			t.Fatal(err)
		}
		if after, replicas := e.listObjects(t); replicas["research-coder"] != 1 || slices.Contains(after, "*v1.StatefulSet research-analyst") {
			t.Errorf("no agent can hold an attempt, and there are %v with %v", after, replicas)
		}
	})
}

func TestDeletedSwarmStaysUntilItsAgentsHaveReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{})
		e.changeLeader(r)
		for _, step := range []func(){func() {}, func() { e.openTerm("research-coder-0") }} {
			step()
			if got, err := r.finalize(t.Context(), swarm); err != nil || got != kit.Pending("AgentsUnheard") {
				t.Errorf("got %+v, %v: an agent may work", got, err)
			}
		}
		time.Sleep(17 * time.Second)
		if got, err := r.finalize(t.Context(), swarm); err != nil || got != kit.Cleaned() {
			t.Errorf("got %+v, %v: nothing can run any more", got, err)
		}
	})
}
