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
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/kit"
)

// A fakeLeadership begins in term 1.
type fakeLeadership struct {
	term     int64
	alone    time.Time
	succeeds bool
}

func (l *fakeLeadership) Term() int64                 { return l.term }
func (l *fakeLeadership) RaiseTerm(above int64) int64 { l.term = max(l.term, above+1); return l.term }
func (l *fakeLeadership) AloneFrom() time.Time        { return l.alone }
func (l *fakeLeadership) Succeeds() bool              { return l.succeeds }

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

// newTerm returns a started dispatcher on caches that are not current. It ends with the test.
func newTerm(t *testing.T, leads *fakeLeadership, stored ...client.Object) (*dispatcher, *fakeCaches) {
	t.Helper()
	caches := &fakeCaches{Client: fake.NewClientBuilder().WithScheme(scheme()).WithObjects(stored...).Build(), current: make(chan struct{})}
	d := &dispatcher{tasks: &kit.Trigger{}, agents: &kit.Trigger{}, swarms: &kit.Trigger{}, leadership: leads, caches: caches}
	d.board = dispatch.New(dispatch.Config{
		Lease: 45 * time.Second, Leadership: leads, Tasks: d.tasks, Agents: d.agents, Swarms: d.swarms, Metrics: prometheus.NewRegistry(),
	})
	d.board.Connect(silentLink{})
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
func TestAgentsAreWelcomedOnceTheLeaderIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, caches := newTerm(t, &fakeLeadership{term: 1, alone: time.Now().Add(8 * time.Second), succeeds: true})
		close(caches.current)
		time.Sleep(8*time.Second - time.Millisecond)
		synctest.Wait()
		if d.welcomes() {
			t.Error("agents are welcomed while a former leader may act")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d, _ := newTerm(t, &fakeLeadership{term: 1, alone: time.Now().Add(8 * time.Second), succeeds: true})
		time.Sleep(8 * time.Second)
		if !d.welcomes() || d.board.Opened() {
			t.Errorf("agents are welcomed: %t, the term is open: %t", d.welcomes(), d.board.Opened())
		}
	})
}

// What is stored while the caches are behind must be known when the term begins.
func TestTermBeginsWithCurrentCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leads := &fakeLeadership{term: 1, alone: time.Now()}
		d, caches := newTerm(t, leads)
		time.Sleep(time.Minute)
		synctest.Wait()
		if d.board.Opened() {
			t.Fatal("the term is open on caches that are behind")
		}
		if err := caches.Create(t.Context(), taskOfTerm("t", 6)); err != nil {
			t.Fatal(err)
		}
		close(caches.current)
		synctest.Wait()
		if !d.board.Opened() || leads.term != 7 {
			t.Errorf("the term is open: %t, it is %d, want 7", d.board.Opened(), leads.term)
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
			leads := &fakeLeadership{term: 1, alone: time.Now().Add(8 * time.Second), succeeds: c.succeeds}
			d, caches := newTerm(t, leads, c.stored...)
			close(caches.current)
			time.Sleep(8*time.Second - time.Millisecond)
			synctest.Wait()
			if d.board.Opened() == c.waits {
				t.Fatalf("%s: the term is open before the leader is alone: %t", name, d.board.Opened())
			}
			if err := caches.Create(t.Context(), taskOfTerm("late", 6)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if !d.board.Opened() || c.waits && leads.term != 7 {
				t.Errorf("%s: the term is open: %t, it is %d, want 7", name, d.board.Opened(), leads.term)
			}
		})
	}
}

// The agents of a former leader may work for a lease after it has stopped, not after the Lease was taken.
func TestGateCountsFromWhenTheLeaderIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, caches := newTerm(t, &fakeLeadership{term: 1, alone: time.Now().Add(8 * time.Second), succeeds: true}, agentLinkedTo("pod"))
		close(caches.current)
		time.Sleep(8*time.Second + 46590*time.Millisecond - time.Millisecond) // a lease of 45 s and its margin
		if _, known := d.board.Busy(client.ObjectKey{Namespace: "demo", Name: "s"}, ""); known {
			t.Error("the gate is open while an agent of the former leader may work")
		}
		time.Sleep(time.Millisecond)
		if _, known := d.board.Busy(client.ObjectKey{Namespace: "demo", Name: "s"}, ""); !known {
			t.Error("the gate is closed after lease and margin")
		}
	})
}

// The pod that was linked last may run what is not stored: the dispatcher waits for it, whatever pod the agent has now.
func TestTermBeginsWithThePodsThatWereLinked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, caches := newTerm(t, &fakeLeadership{term: 1, alone: time.Now()}, agentLinkedTo("former"))
		close(caches.current)
		synctest.Wait()
		agent := link.Agent{Namespace: "demo", Name: "a"}
		if err := d.board.Joined(agent, "successor", &linkv1.Hello{Swarm: "s", Slots: 1, Process: "p"}); err != nil {
			t.Fatal(err)
		}
		if stored := d.board.Agent(client.ObjectKey{Namespace: "demo", Name: "a"}).ToRecord.PodUID; stored != "" {
			t.Errorf("pod %q takes the place of one that the dispatcher should wait for", stored)
		}
	})
}

// All pods of agents are awaited, and no others.
func TestCensusHasThePodsOfAgents(t *testing.T) {
	member, other := &corev1.Pod{}, &corev1.Pod{}
	member.Namespace, member.Name, member.Labels = "demo", "a", map[string]string{v1alpha1.LabelSwarm: "s"}
	other.Namespace, other.Name = "demo", "b"
	synctest.Test(t, func(t *testing.T) {
		d, caches := newTerm(t, &fakeLeadership{term: 1, alone: time.Now(), succeeds: true}, member, other, agentLinkedTo("pod"), taskOfTerm("t", 1))
		close(caches.current)
		census, err := d.census(t.Context())
		names := []string{}
		for n := range census.Pods {
			names = append(names, census.Pods[n].Name)
		}
		if err != nil || !slices.Equal(names, []string{"a"}) || len(census.Agents) != 1 || len(census.Tasks) != 1 || !census.Succeeds {
			t.Errorf("pods %v, %d agents, %d tasks, succeeds another leader: %t: %v", names, len(census.Agents), len(census.Tasks), census.Succeeds, err)
		}
	})
}
