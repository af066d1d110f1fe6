package operator

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeagents"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// linkAddress is a setting with which agents of this process reach the operator.
var linkAddress = "SWARM_LINK_ADDRESS=127.0.0.1:" + linkPort

// A taskOrder is the payload of a task.
type taskOrder struct {
	Reports []int  `json:"reports,omitempty"` // progress to report, in this order
	Hold    bool   `json:"holds,omitempty"`   // the attempt ends only when the spec releases the task
	Result  string `json:"returns,omitempty"` // the result, in JSON
}

// An agentHandler is the code of all agents of a spec. It does what the payload says, until the spec releases the task.
type agentHandler struct {
	lock     sync.Mutex
	gates    map[string]chan struct{} // by task: closed when the task is released
	stopping map[string]bool          // tasks whose attempt was asked to stop
}

// runAgents runs an agent for every pod of the namespace, until the spec or its container ends.
func runAgents(ctx context.Context, ns string) *agentHandler {
	GinkgoHelper()
	w := &agentHandler{gates: map[string]chan struct{}{}, stopping: map[string]bool{}}
	log := testcluster.Log(slog.LevelWarn)
	agents, err := fakeagents.Start(context.WithoutCancel(ctx), clusterConfig, fakeagents.Options{Namespace: ns, Handler: w, Log: log})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		w.lock.Lock()
		for _, gate := range w.gates {
			closeOnce(gate)
		}
		w.lock.Unlock()
		agents.Stop()
		Expect(agents.Journal().Verify()).To(Succeed())
	})
	return w
}

// Handle is one attempt. An attempt that was asked to stop still waits for its release, so that a spec can see what happens meanwhile.
func (w *agentHandler) Handle(ctx context.Context, task agent.Task, report agent.Report) (any, error) {
	var payload taskOrder
	if err := task.Decode(&payload); err != nil {
		return nil, err
	}
	for _, percent := range payload.Reports {
		report(percent, "working")
	}
	if payload.Result != "" {
		return json.RawMessage(payload.Result), nil
	}
	if !payload.Hold {
		return nil, nil
	}
	select {
	case <-w.gateOf(task.Name):
		return nil, nil
	case <-ctx.Done():
	}
	w.lock.Lock()
	w.stopping[task.Name] = true
	w.lock.Unlock()
	select {
	case <-w.gateOf(task.Name):
	case <-time.After(20 * time.Second): // below the grace period: the spec has failed
	}
	return nil, ctx.Err()
}

func (w *agentHandler) gateOf(task string) chan struct{} {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.gates[task] == nil {
		w.gates[task] = make(chan struct{})
	}
	return w.gates[task]
}

// hasStarted reports whether an attempt of a task that holds has begun.
func (w *agentHandler) hasStarted(task string) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.gates[task] != nil
}

// release lets the attempts of a task end.
func (w *agentHandler) release(task string) {
	gate := w.gateOf(task)
	w.lock.Lock()
	defer w.lock.Unlock()
	closeOnce(gate)
}

func closeOnce(gate chan struct{}) {
	select {
	case <-gate:
	default:
		close(gate)
	}
}

// stopRequested reports whether an attempt of the task was asked to stop.
func (w *agentHandler) stopRequested(task string) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.stopping[task]
}

// newTeam is a swarm of this many workers, with two slots each and no storage.
func newTeam(ns, name string, size int32) *v1alpha1.Swarm {
	return &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.SwarmSpec{Replicas: &size, MaxAgents: 5, Agents: []v1alpha1.AgentType{{
			Type: "worker", Slots: 2, Template: agentTemplate(),
		}}},
	}
}

func agentTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "example.test/agent:1"}}}}
}

// submit creates a task.
func submit(ctx context.Context, swarm *v1alpha1.Swarm, name string, payload taskOrder,
	changes ...func(*v1alpha1.TaskSpec)) *v1alpha1.Task {
	GinkgoHelper()
	encoded, err := json.Marshal(payload)
	Expect(err).NotTo(HaveOccurred())
	task := &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: swarm.Namespace, Name: name},
		Spec:       v1alpha1.TaskSpec{SwarmRef: v1alpha1.SwarmReference{Name: swarm.Name}, Payload: &apiextensionsv1.JSON{Raw: encoded}},
	}
	for _, change := range changes {
		change(&task.Spec)
	}
	Expect(api.Create(ctx, task)).To(Succeed())
	return task
}
