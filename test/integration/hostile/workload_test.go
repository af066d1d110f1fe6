package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	tasksPerSwarm = 30                    // in a round, of each honest swarm
	taskInterval  = 70 * time.Millisecond // between two tasks
	duration      = 20 * time.Millisecond // of an attempt
	honest        = "honest"              // the name of every honest swarm
)

// newSwarm creates a swarm of simulated pods, two slots each, and waits until its pods run.
func newSwarm(ctx context.Context, ns, name string, size int32) *v1alpha1.Swarm {
	GinkgoHelper()
	swarm := &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.SwarmSpec{Replicas: &size, MaxAgents: 5, Agents: []v1alpha1.AgentType{{Type: "worker", Slots: 2,
			Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "example.test/agent:1"}}},
			}}}},
	}
	Expect(api.Create(ctx, swarm)).To(Succeed())
	Eventually(running).WithContext(ctx).WithArguments(ns, name).Should(BeEquivalentTo(size))
	return swarm
}

// running counts the pods of a swarm that run.
func running(ctx context.Context, ns, swarm string) (int, error) {
	pods := &corev1.PodList{}
	err := api.List(ctx, pods, client.InNamespace(ns), client.MatchingLabels{v1alpha1.LabelSwarm: swarm})
	return len(slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning })), err
}

// newTask returns a task for a swarm.
func newTask(swarm *v1alpha1.Swarm, name, payload string) *v1alpha1.Task {
	return &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: swarm.Namespace, Name: name},
		Spec:       v1alpha1.TaskSpec{SwarmRef: v1alpha1.SwarmReference{Name: swarm.Name}, Payload: &apiextensionsv1.JSON{Raw: []byte(payload)}},
	}
}

// An agentHandler is the code of all honest agents. It notes when each task was first started.
type agentHandler struct {
	release chan struct{} // closed when attempts that hold may end

	mu      sync.Mutex
	started map[types.NamespacedName]time.Time
}

// Handle implements agent.Handler.
func (p *agentHandler) Handle(ctx context.Context, task agent.Task, _ agent.Report) (any, error) {
	p.recordStart(types.NamespacedName{Namespace: task.Namespace, Name: task.Name})
	var payload struct{ Hold bool }
	if err := task.Decode(&payload); err != nil {
		return nil, err
	}
	end := time.After(duration)
	if payload.Hold {
		end = nil
	}
	select {
	case <-end:
	case <-p.release:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return map[string]string{"by": task.Agent}, nil
}

func (p *agentHandler) recordStart(task types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.started[task]; !known {
		p.started[task] = time.Now()
	}
}

// startOf returns when a task was first started; the zero time if it was not.
func (p *agentHandler) startOf(task types.NamespacedName) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started[task]
}

// work creates a round of tasks, one after the other for the swarms in turn, waits until all of them are finished, and returns how long
// each took from its creation to its start, sorted.
func (s *environment) work(ctx context.Context, name string, swarms ...*v1alpha1.Swarm) []time.Duration {
	GinkgoHelper()
	created := map[types.NamespacedName]time.Time{}
	for n := range tasksPerSwarm {
		for _, swarm := range swarms {
			next := time.After(taskInterval)
			task := newTask(swarm, fmt.Sprintf("%s-%03d", name, n), `{"hold":false}`)
			created[client.ObjectKeyFromObject(task)] = time.Now()
			Expect(api.Create(ctx, task)).To(Succeed())
			<-next
		}
	}
	for _, swarm := range swarms {
		Eventually(unfinished).WithContext(ctx).WithArguments(swarm.Namespace, name).WithTimeout(2 * time.Minute).
			WithPolling(250 * time.Millisecond).Should(BeEmpty())
	}
	var took []time.Duration
	for task, at := range created {
		took = append(took, s.program.startOf(task).Sub(at))
	}
	slices.Sort(took)
	AddReportEntry("create to start, "+name, ReportEntryVisibilityAlways,
		fmt.Sprintf("median %s, p90 %s, longest %s", share(took, 50), share(took, 90), share(took, 100)))
	return took
}

// share returns the value below which this percentage of the values lies.
func share(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100].Round(100 * time.Microsecond)
}

// unfinished are the tasks of a round in a namespace that have no final phase.
func unfinished(ctx context.Context, ns, round string) ([]string, error) {
	tasks := &v1alpha1.TaskList{}
	err := api.List(ctx, tasks, client.InNamespace(ns))
	var names []string
	for _, task := range tasks.Items {
		if strings.HasPrefix(task.Name, round+"-") && !task.Status.Phase.Final() {
			names = append(names, fmt.Sprintf("%s: %s %s", task.Name, task.Status.Phase, task.Status.Message))
		}
	}
	return names, err
}

// createHeldTasks creates a task for each honest swarm that runs until the attacks are over.
func (s *environment) createHeldTasks(ctx context.Context) {
	GinkgoHelper()
	for _, swarm := range s.honest {
		task := newTask(swarm, "held-000", `{"hold":true}`)
		Expect(api.Create(ctx, task)).To(Succeed())
		Eventually(func(ctx context.Context) (v1alpha1.TaskPhase, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(task), task)
			return task.Status.Phase, err
		}).WithContext(ctx).Should(Equal(v1alpha1.TaskRunning))
	}
}

// honestTasks are all tasks of the honest swarms.
func (s *environment) honestTasks(ctx context.Context) ([]v1alpha1.Task, error) {
	var result []v1alpha1.Task
	for _, swarm := range s.honest {
		tasks := &v1alpha1.TaskList{}
		if err := api.List(ctx, tasks, client.InNamespace(swarm.Namespace)); err != nil {
			return nil, err
		}
		result = append(result, slices.DeleteFunc(tasks.Items, func(task v1alpha1.Task) bool { return task.Spec.SwarmRef.Name != honest })...)
	}
	return result, nil
}

// honestAgents are the Agents of the honest swarms.
func (s *environment) honestAgents(ctx context.Context) ([]v1alpha1.Agent, error) {
	var result []v1alpha1.Agent
	for _, swarm := range s.honest {
		agents := &v1alpha1.AgentList{}
		if err := api.List(ctx, agents, client.InNamespace(swarm.Namespace), client.MatchingLabels{v1alpha1.LabelSwarm: honest}); err != nil {
			return nil, err
		}
		result = append(result, agents.Items...)
	}
	return result, nil
}

// text is an object as JSON.
func text(object any) string {
	GinkgoHelper()
	encoded, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	return string(encoded)
}
