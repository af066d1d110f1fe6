package operator

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// A fakeLeadership begins in term 1.
type fakeLeadership struct {
	term           int64
	soleFrom       time.Time
	hasPredecessor bool
}

func (l *fakeLeadership) Term() int64                 { return l.term }
func (l *fakeLeadership) RaiseTerm(above int64) int64 { l.term = max(l.term, above+1); return l.term }
func (l *fakeLeadership) SoleLeaderFrom() time.Time   { return l.soleFrom }
func (l *fakeLeadership) HasPredecessor() bool        { return l.hasPredecessor }

// fakeCaches become current when a test says so.
type fakeCaches struct {
	client.Client
	current chan struct{}
	kinds   []kit.Kind
}

func (c *fakeCaches) GetClient() client.Client { return c.Client }

func (c *fakeCaches) AwaitCurrent(ctx context.Context, kinds ...kit.Kind) error {
	c.kinds = kinds
	select {
	case <-c.current:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A silentLink has no agents.
type silentLink struct{}

func (silentLink) Send(link.Agent, *linkv1.OperatorMessage) error { return link.ErrNotLinked }
func (silentLink) LastHeard(link.Agent) (time.Time, bool)         { return time.Time{}, false }
func (silentLink) Disconnect(link.Agent, time.Time) bool          { return true }

// startDispatchRunner returns a started dispatcher on caches that are not current. It ends with the test.
func startDispatchRunner(t *testing.T, leads *fakeLeadership, stored ...client.Object) (*dispatchRunner, *fakeCaches) {
	t.Helper()
	caches := &fakeCaches{Client: fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(stored...).Build(), current: make(chan struct{})}
	d := &dispatchRunner{tasks: &kit.Trigger{}, agents: &kit.Trigger{}, swarms: &kit.Trigger{}, leadership: leads, caches: caches}
	d.dispatcher = dispatch.New(dispatch.Config{
		Lease: 45 * time.Second, Leadership: leads, Tasks: d.tasks, Agents: d.agents, Swarms: d.swarms, Metrics: prometheus.NewRegistry(),
	})
	d.dispatcher.Connect(silentLink{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return d, caches
}

func taskOfTerm(name string, term int64) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.Namespace, task.Name, task.Spec.SwarmRef.Name, task.Status.Epoch = "demo", name, "s", term<<32
	return task
}

func agentLinkedTo(podUID string) *v1alpha1.Agent {
	agent := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}}}
	agent.Namespace, agent.Name, agent.Status.LinkedPodUID = "demo", "a", podUID
	return agent
}

// A leader that is alone answers heartbeats before its caches are current, one that is not alone does not.
func TestAgentsAreAcceptedOnceTheLeaderIsTheOnlyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, caches := startDispatchRunner(t, &fakeLeadership{term: 1, soleFrom: time.Now().Add(8 * time.Second), hasPredecessor: true})
		close(caches.current)
		time.Sleep(8*time.Second - time.Millisecond)
		synctest.Wait()
		if d.acceptsAgents() {
			t.Error("agents are welcomed while a former leader may act")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d, _ := startDispatchRunner(t, &fakeLeadership{term: 1, soleFrom: time.Now().Add(8 * time.Second), hasPredecessor: true})
		time.Sleep(8 * time.Second)
		if !d.acceptsAgents() || d.dispatcher.Opened() {
			t.Errorf("agents are welcomed: %t, the term is open: %t", d.acceptsAgents(), d.dispatcher.Opened())
		}
	})
}

// What is stored while the caches are behind must be known when the term begins.
func TestTermBeginsWithCurrentCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leadership := &fakeLeadership{term: 1, soleFrom: time.Now()}
		d, caches := startDispatchRunner(t, leadership)
		time.Sleep(time.Minute)
		synctest.Wait()
		if d.dispatcher.Opened() {
			t.Fatal("the term is open on caches that are behind")
		}
		if err := caches.Create(t.Context(), taskOfTerm("t", 6)); err != nil {
			t.Fatal(err)
		}
		close(caches.current)
		synctest.Wait()
		if !d.dispatcher.Opened() || leadership.term != 7 {
			t.Errorf("the term is open: %t, it is %d, want 7", d.dispatcher.Opened(), leadership.term)
		}
		if len(caches.kinds) != 4 {
			t.Errorf("waited for %d kinds, want swarms, agents, tasks and pods", len(caches.kinds))
		}
	})
}

// A former leader may finish tasks until the new one is alone, so everything is read again then. On a new cluster there is none.
func TestTermBeginsWhenTheLeaderIsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		stored   []client.Object
		succeeds bool
		waits    bool
	}{
		"a new cluster":              {},
		"an epoch is stored":         {stored: []client.Object{taskOfTerm("t", 1)}, waits: true},
		"an agent was linked":        {stored: []client.Object{agentLinkedTo("pod")}, waits: true},
		"a former leader, no object": {succeeds: true, waits: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			leadership := &fakeLeadership{term: 1, soleFrom: time.Now().Add(8 * time.Second), hasPredecessor: c.succeeds}
			d, caches := startDispatchRunner(t, leadership, c.stored...)
			close(caches.current)
			time.Sleep(8*time.Second - time.Millisecond)
			synctest.Wait()
			if d.dispatcher.Opened() == c.waits {
				t.Fatalf("%s: the term is open before the leader is alone: %t", name, d.dispatcher.Opened())
			}
			if err := caches.Create(t.Context(), taskOfTerm("late", 6)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if !d.dispatcher.Opened() || c.waits && leadership.term != 7 {
				t.Errorf("%s: the term is open: %t, it is %d, want 7", name, d.dispatcher.Opened(), leadership.term)
			}
		})
	}
}

// The agents of a former leader may work for a lease after it has stopped, not after the Lease was taken.
func TestGateCountsFromWhenTheLeaderIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, caches := startDispatchRunner(t, &fakeLeadership{term: 1, soleFrom: time.Now().Add(8 * time.Second), hasPredecessor: true},
			agentLinkedTo("pod"))
		close(caches.current)
		time.Sleep(8*time.Second + 46590*time.Millisecond - time.Millisecond) // a lease of 45 s and its margin
		if _, known := d.dispatcher.CountAttempts(client.ObjectKey{Namespace: "demo", Name: "s"}, ""); known {
			t.Error("the gate is open while an agent of the former leader may work")
		}
		time.Sleep(time.Millisecond)
		if _, known := d.dispatcher.CountAttempts(client.ObjectKey{Namespace: "demo", Name: "s"}, ""); !known {
			t.Error("the gate is closed after lease and margin")
		}
	})
}

// The pod that was linked last may run what is not stored: the dispatcher waits for it, whatever pod the agent has now.
func TestTermBeginsWithThePodsThatWereLinked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, caches := startDispatchRunner(t, &fakeLeadership{term: 1, soleFrom: time.Now()}, agentLinkedTo("former"))
		close(caches.current)
		synctest.Wait()
		agent := link.Agent{Namespace: "demo", Name: "a"}
		if err := d.dispatcher.Joined(agent, "successor", &linkv1.Hello{Swarm: "s", Slots: 1, Process: "p"}); err != nil {
			t.Fatal(err)
		}
		if stored := d.dispatcher.Agent(client.ObjectKey{Namespace: "demo", Name: "a"}).ProcessToRecord.PodUID; stored != "" {
			t.Errorf("pod %q takes the place of one that the dispatcher should wait for", stored)
		}
	})
}

// All pods of agents are awaited, and no others.
func TestSnapshotHasThePodsOfAgents(t *testing.T) {
	member, other := &corev1.Pod{}, &corev1.Pod{}
	member.Namespace, member.Name, member.Labels = "demo", "a", map[string]string{v1alpha1.LabelSwarm: "s"}
	other.Namespace, other.Name = "demo", "b"
	synctest.Test(t, func(t *testing.T) {
		d, caches := startDispatchRunner(t, &fakeLeadership{term: 1, soleFrom: time.Now(), hasPredecessor: true}, member, other,
			agentLinkedTo("pod"), taskOfTerm("t", 1))
		close(caches.current)
		snapshot, err := d.readSnapshot(t.Context())
		names := []string{}
		for n := range snapshot.Pods {
			names = append(names, snapshot.Pods[n].Name)
		}
		if err != nil || !slices.Equal(names, []string{"a"}) || len(snapshot.Agents) != 1 || len(snapshot.Tasks) != 1 ||
			!snapshot.HasPredecessor {
			t.Errorf("pods %v, %d agents, %d tasks, succeeds another leader: %t: %v", names, len(snapshot.Agents), len(snapshot.Tasks),
				snapshot.HasPredecessor, err)
		}
	})
}
