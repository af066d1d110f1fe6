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

// A fixture is a dispatcher with all dependencies controlled by a test, which calls step itself.
type fixture struct {
	*Dispatcher
	registry  *prometheus.Registry
	term      int64
	version   int
	sendErr   error // result of Send
	sendLimit *int  // for assignments, nil without a limit
	sent      []*linkv1.OperatorMessage
	heardAt   map[link.Agent]time.Time

	disconnected          []link.Agent
	triggers              []triggered
	heartbeatOnDisconnect bool // a heartbeat arrives just before a stream is ended
	noHandBack            bool // the agents do not know the feature
	createdTasks          map[string]*v1alpha1.Task
}

func (f *fixture) Send(_ link.Agent, message *linkv1.OperatorMessage) error {
	if f.sendErr != nil {
		return f.sendErr
	}
	if message.GetAssign() != nil && f.sendLimit != nil {
		if *f.sendLimit == 0 {
			return link.ErrNoRoom
		}
		*f.sendLimit--
	}
	if f.noHandBack && message.GetCancel().GetHandBack() {
		return link.ErrUnsupported
	}
	f.sent = append(f.sent, message)
	return nil
}

func (f *fixture) LastHeard(agent link.Agent) (time.Time, bool) {
	at, known := f.heardAt[agent]
	return at, known
}

func (f *fixture) Disconnect(agent link.Agent, unheardSince time.Time) bool {
	if f.heartbeatOnDisconnect {
		f.heardAt[agent] = time.Now()
		return false
	}
	f.disconnected = append(f.disconnected, agent)
	return !f.heardAt[agent].After(unheardSince)
}

// leaseTimeout returns how long after its last sign of life an agent with the default lease can still be working.
func (f *fixture) leaseTimeout() time.Duration { return leaseTimeout(f.config.Lease) }

func (f *fixture) Term() int64                 { return f.term }
func (f *fixture) RaiseTerm(above int64) int64 { f.term = max(f.term, above+1); return f.term }

// After implements Trigger, of tasks, agents and swarms.
func (f *fixture) After(name types.NamespacedName, delay time.Duration) {
	f.triggers = append(f.triggers, triggered{name.Name, delay})
}

// A triggered requests a reconcile of an object.
type triggered struct {
	name  string
	delay time.Duration
}

// withFixture runs a test with an open dispatcher that has found the pods. It runs in a synctest bubble: time.Sleep advances a fake
// clock and takes no time.
func withFixture(t *testing.T, pods []corev1.Pod, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{term: 1, heardAt: map[link.Agent]time.Time{}, registry: prometheus.NewRegistry()}
		f.Dispatcher = New(Config{Lease: 15 * time.Second, Leadership: f, Tasks: f, Agents: f, Swarms: f, Metrics: f.registry})
		f.Connect(f)
		f.Open(Snapshot{Pods: pods, Agents: agentObjectsOf(pods)})
		test(t, f)
	})
}

// agentObjectsOf returns the Agent objects of pods. Their default lease is stored, which happens as soon as an object exists, and no pod
// is.
func agentObjectsOf(pods []corev1.Pod) []v1alpha1.Agent {
	agents := make([]v1alpha1.Agent, len(pods))
	for n := range pods {
		agents[n].Namespace, agents[n].Name = pods[n].Namespace, pods[n].Name
		agents[n].Spec.SwarmRef.Name, agents[n].Status.LeaseSeconds = pods[n].Labels[v1alpha1.LabelSwarm], 15
	}
	return agents
}

func pod(name, swarm string) corev1.Pod {
	pod := corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.Labels = "ns", name, types.UID("pod-"+name), map[string]string{v1alpha1.LabelSwarm: swarm}
	return pod
}

// joinAgent links an agent of a swarm with this many slots and the attempts that it reports to run.
func (f *fixture) joinAgent(t *testing.T, name, swarm string, slots int, running ...*linkv1.Attempt) link.Agent {
	t.Helper()
	agent := link.Agent{Namespace: "ns", Name: name}
	object := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: swarm}, Type: "worker"}}
	object.Namespace, object.Name, object.Status.LinkedPodUID = "ns", name, "pod-"+name
	f.SetAgent(object, 0)
	f.heardAt[agent] = time.Now()
	if err := f.Joined(agent, "pod-"+name, &linkv1.Hello{Swarm: swarm, Slots: int32(slots), Running: running}); err != nil {
		t.Fatal(err)
	}
	f.grantCredit(agent, int64(slots))
	return agent
}

// recordPod acts as the controller: it stores which pod of an agent of swarm s is linked.
func (f *fixture) recordPod(agent link.Agent, podUID string) {
	object := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}, Type: "worker"}}
	object.Namespace, object.Name, object.Status.LinkedPodUID = agent.Namespace, agent.Name, podUID
	f.SetAgent(object, 0)
}

func (f *fixture) grantCredit(agent link.Agent, granted int64) {
	f.Received(agent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: granted}}})
}

func (f *fixture) sendResult(agent link.Agent, attempt *linkv1.Attempt, outcome linkv1.Outcome) {
	f.Received(agent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: &linkv1.Result{Attempt: attempt, Outcome: outcome}}})
}

func (f *fixture) sendProgress(agent link.Agent, attempt *linkv1.Attempt) {
	f.Received(agent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: &linkv1.Progress{Attempt: attempt, Percent: 50}}})
}

// createTask returns a new, observed task of a swarm.
func (f *fixture) createTask(name, swarm string) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.Namespace, task.Name, task.UID, task.Spec.SwarmRef.Name = "ns", name, types.UID("uid-"+name), swarm
	f.bumpVersion(task)
	f.Observe(task, TaskInput{})
	return task
}

func (f *fixture) bumpVersion(task *v1alpha1.Task) {
	f.version++
	task.ResourceVersion = strconv.Itoa(f.version)
}

// storeStatus acts as the controller: it writes the outcome of an attempt.
func (f *fixture) storeStatus(task *v1alpha1.Task) {
	view := f.Observe(task, TaskInput{})
	switch {
	case view.End != nil:
		task.Status.Epoch, task.Status.AssignedAgents = view.End.Epoch, nil
	case view.Assignment != nil:
		task.Status.Epoch, task.Status.AssignedAgents = view.Assignment.Epoch,
			[]v1alpha1.AssignedAgent{{Name: view.Assignment.Agent, Epoch: view.Assignment.Epoch}}
	}
	f.bumpVersion(task)
	f.MarkStored(task, nil)
}

func (f *fixture) setSwarms(swarms ...string) {
	for _, name := range swarms {
		f.SetSwarm(types.NamespacedName{Namespace: "ns", Name: name}, SwarmRules{})
	}
}

// attemptCount returns how many attempts are known to be held.
func (f *fixture) attemptCount(swarm types.NamespacedName, agent string) int {
	attempts, known := f.CountAttempts(swarm, agent)
	if !known {
		return -1
	}
	return attempts
}

func (f *fixture) runStep() { f.step(time.Now()) }

// takeAssignments returns the attempts that were sent since the last call.
func (f *fixture) takeAssignments() []*linkv1.Attempt {
	var list []*linkv1.Attempt
	for _, message := range f.sent {
		if assign := message.GetAssign(); assign != nil {
			list = append(list, assign.GetAttempt())
		}
	}
	f.sent = nil
	return list
}

// staleCount returns how many messages of a kind were refused.
func (f *fixture) staleCount(t *testing.T, kind string) float64 {
	t.Helper()
	count, _ := f.findMetric(t, "swarm_task_stale_total", kind)
	return count
}

func nameOf(task *v1alpha1.Task) types.NamespacedName {
	return types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
}
