package dispatch

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// A desk is a board with all dependencies controlled by a test, which calls step itself.
type desk struct {
	*Board
	registry *prometheus.Registry
	term     int64
	version  int
	refuse   error // result of Send
	room     *int  // for assignments, nil without a limit
	sent     []*linkv1.OperatorMessage
	heard    map[link.Agent]time.Time

	disconnected []link.Agent
	signals      []signal
	heardLate    bool // a heartbeat arrives just before a stream is ended
	noHandBack   bool // the agents do not know the feature
	known        map[string]*v1alpha1.Task
}

func (d *desk) Send(_ link.Agent, message *linkv1.OperatorMessage) error {
	if d.refuse != nil {
		return d.refuse
	}
	if message.GetAssign() != nil && d.room != nil {
		if *d.room == 0 {
			return link.ErrNoRoom
		}
		*d.room--
	}
	if d.noHandBack && message.GetCancel().GetHandBack() {
		return link.ErrUnsupported
	}
	d.sent = append(d.sent, message)
	return nil
}

func (d *desk) LastHeard(agent link.Agent) (time.Time, bool) {
	at, known := d.heard[agent]
	return at, known
}

func (d *desk) Disconnect(agent link.Agent, unheardSince time.Time) bool {
	if d.heardLate {
		d.heard[agent] = time.Now()
		return false
	}
	d.disconnected = append(d.disconnected, agent)
	return !d.heard[agent].After(unheardSince)
}

// lapse returns how long after its last sign of life an agent with the default lease can still be working.
func (d *desk) lapse() time.Duration { return lapse(d.config.Lease) }

func (d *desk) Term() int64                 { return d.term }
func (d *desk) RaiseTerm(above int64) int64 { d.term = max(d.term, above+1); return d.term }

// After implements Signal, of tasks, agents and swarms.
func (d *desk) After(name types.NamespacedName, delay time.Duration) {
	d.signals = append(d.signals, signal{name.Name, delay})
}

// A signal requests a reconcile of an object.
type signal struct {
	name  string
	delay time.Duration
}

// atDesk runs a test with an open board that has found the pods. It runs in a synctest bubble: time.Sleep advances a fake
// clock and takes no time.
func atDesk(t *testing.T, pods []corev1.Pod, test func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{term: 1, heard: map[link.Agent]time.Time{}, registry: prometheus.NewRegistry()}
		d.Board = New(Config{Lease: 15 * time.Second, Leadership: d, Tasks: d, Agents: d, Swarms: d, Metrics: d.registry})
		d.Connect(d)
		d.Open(Census{Pods: pods, Agents: agentsOf(pods)})
		test(t, d)
	})
}

// agentsOf returns the Agent objects of pods. Their default lease is stored, which happens as soon as an object exists, and no pod is.
func agentsOf(pods []corev1.Pod) []v1alpha1.Agent {
	agents := make([]v1alpha1.Agent, len(pods))
	for n := range pods {
		agents[n].Namespace, agents[n].Name = pods[n].Namespace, pods[n].Name
		agents[n].Spec.SwarmRef.Name, agents[n].Status.LeaseSeconds = pods[n].Labels[v1alpha1.LabelSwarm], 15
	}
	return agents
}

func pod(name, swarm string) corev1.Pod {
	made := corev1.Pod{}
	made.Namespace, made.Name, made.UID, made.Labels = "ns", name, types.UID("pod-"+name), map[string]string{v1alpha1.LabelSwarm: swarm}
	return made
}

// joins links an agent of a swarm with this many slots and the attempts that it reports to run.
func (d *desk) joins(t *testing.T, name, swarm string, slots int, running ...*linkv1.Attempt) link.Agent {
	t.Helper()
	who := link.Agent{Namespace: "ns", Name: name}
	object := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: swarm}, Type: "worker"}}
	object.Namespace, object.Name, object.Status.LinkedPodUID = "ns", name, "pod-"+name
	d.Enrol(object, 0)
	d.heard[who] = time.Now()
	if err := d.Joined(who, "pod-"+name, &linkv1.Hello{Swarm: swarm, Slots: int32(slots), Running: running}); err != nil {
		t.Fatal(err)
	}
	d.credit(who, int64(slots))
	return who
}

// records acts as the controller: it stores which pod of an agent of swarm s is linked.
func (d *desk) records(who link.Agent, podUID string) {
	object := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}, Type: "worker"}}
	object.Namespace, object.Name, object.Status.LinkedPodUID = who.Namespace, who.Name, podUID
	d.Enrol(object, 0)
}

func (d *desk) credit(who link.Agent, granted int64) {
	d.Received(who, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: granted}}})
}

func (d *desk) concludes(who link.Agent, attempt *linkv1.Attempt, outcome linkv1.Outcome) {
	d.Received(who, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: &linkv1.Result{Attempt: attempt, Outcome: outcome}}})
}

func (d *desk) progresses(who link.Agent, attempt *linkv1.Attempt) {
	d.Received(who, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: &linkv1.Progress{Attempt: attempt, Percent: 50}}})
}

// task returns a new, observed task of a swarm.
func (d *desk) task(name, swarm string) *v1alpha1.Task {
	made := &v1alpha1.Task{}
	made.Namespace, made.Name, made.UID, made.Spec.SwarmRef.Name = "ns", name, types.UID("uid-"+name), swarm
	d.stores(made)
	d.Observe(made, Brief{})
	return made
}

func (d *desk) stores(task *v1alpha1.Task) {
	d.version++
	task.ResourceVersion = strconv.Itoa(d.version)
}

// settles acts as the controller: it writes the outcome of an attempt.
func (d *desk) settles(task *v1alpha1.Task) {
	view := d.Observe(task, Brief{})
	switch {
	case view.Ended != nil:
		task.Status.Epoch, task.Status.AssignedAgents = view.Ended.Epoch, nil
	case view.Held != nil:
		task.Status.Epoch, task.Status.AssignedAgents = view.Held.Epoch, []v1alpha1.AssignedAgent{{Name: view.Held.Agent, Epoch: view.Held.Epoch}}
	}
	d.stores(task)
	d.Settle(task, nil)
}

func (d *desk) rule(swarms ...string) {
	for _, name := range swarms {
		d.Govern(types.NamespacedName{Namespace: "ns", Name: name}, Rules{})
	}
}

// busyOf returns how many attempts are known to be held.
func (d *desk) busyOf(swarm types.NamespacedName, agent string) int {
	attempts, known := d.Busy(swarm, agent)
	if !known {
		return -1
	}
	return attempts
}

func (d *desk) steps() { d.step(time.Now()) }

// assigned returns the attempts that were sent since the last call.
func (d *desk) assigned() []*linkv1.Attempt {
	var list []*linkv1.Attempt
	for _, message := range d.sent {
		if assign := message.GetAssign(); assign != nil {
			list = append(list, assign.GetAttempt())
		}
	}
	d.sent = nil
	return list
}

// stales returns how many messages of a kind were refused.
func (d *desk) stales(t *testing.T, kind string) float64 {
	t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() == "swarm_task_stale_total" && one.GetLabel()[0].GetValue() == kind {
				return one.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func nameOf(task *v1alpha1.Task) types.NamespacedName {
	return types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
}
