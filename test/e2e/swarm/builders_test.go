package swarm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// newSwarm returns a swarm of workers that record what they do on their own volumes.
func newSwarm(name string, agents, slots int32) *v1alpha1.Swarm {
	return &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.SwarmSpec{
			Replicas: &agents, MaxAgents: 20,
			Agents: []v1alpha1.AgentType{worker("worker", slots)},
		},
	}
}

func worker(kind string, slots int32, capabilities ...string) v1alpha1.AgentType {
	return v1alpha1.AgentType{
		Type: kind, Slots: slots, Capabilities: capabilities,
		Storage: &v1alpha1.AgentStorage{Size: resource.MustParse("16Mi"), Retention: v1alpha1.StorageDelete},
		Runtime: &v1alpha1.AgentRuntime{Exec: &v1alpha1.ExecRuntime{Command: []string{"/probe", "work"}, GracePeriodSeconds: new(int32(5))}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "agent", Image: testcluster.ProbeImage(), Env: []corev1.EnvVar{{Name: "SWARM_JOURNAL", Value: "/var/lib/swarm/journal.jsonl"}},
		}}}},
	}
}

// taskOrder is the payload that the probe understands.
type taskOrder struct {
	Milliseconds       int    `json:"milliseconds,omitempty"`
	Exit               int    `json:"exit,omitempty"`
	SucceedFromAttempt int    `json:"untilAttempt,omitempty"`
	FastFromAttempt    int    `json:"quickFrom,omitempty"`
	Output             int    `json:"output,omitempty"`
	Message            string `json:"say,omitempty"`
	Progress           []int  `json:"progress,omitempty"`
}

func orderLasting(length time.Duration) taskOrder {
	return taskOrder{Milliseconds: int(length.Milliseconds())}
}

// endlessOrder is a payload whose first attempt runs until it is ended; the next attempt takes no time.
func endlessOrder() taskOrder {
	return taskOrder{Milliseconds: int(10 * time.Minute / time.Millisecond), FastFromAttempt: 2}
}

func task(name, swarm string, payload taskOrder) *v1alpha1.Task {
	encoded, err := json.Marshal(payload)
	Expect(err).NotTo(HaveOccurred())
	return &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.TaskSpec{SwarmRef: v1alpha1.SwarmReference{Name: swarm}, Payload: &apiextensionsv1.JSON{Raw: encoded}},
	}
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(api.Create(ctx, object)).To(Succeed())
	}
}

// createReadySwarm creates a swarm and waits until all of it is ready, as kubectl wait does.
func createReadySwarm(ctx context.Context, swarm *v1alpha1.Swarm) *v1alpha1.Swarm {
	GinkgoHelper()
	create(ctx, swarm)
	Expect(kubectl(ctx, "wait", "--namespace", namespace, "swarm/"+swarm.Name, "--for=condition=Ready", "--timeout=90s")).
		To(ContainSubstring("condition met"))
	return swarm
}

// createTasks creates many tasks of one kind.
func createTasks(ctx context.Context, swarm string, count int, payload taskOrder) []string {
	GinkgoHelper()
	var names []string
	for n := range count {
		made := task(fmt.Sprintf("%s-%02d", swarm, n), swarm, payload)
		create(ctx, made)
		names = append(names, made.Name)
	}
	return names
}

func current[T client.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	Expect(api.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

func taskNamed(ctx context.Context, name string) *v1alpha1.Task {
	GinkgoHelper()
	return current(ctx, &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// phaseOf is for Eventually.
func phaseOf(ctx context.Context, name string) func(Gomega) v1alpha1.TaskPhase {
	return func(g Gomega) v1alpha1.TaskPhase {
		found := &v1alpha1.Task{}
		g.Expect(api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found)).To(Succeed())
		return found.Status.Phase
	}
}

// awaitRunning waits until a task is shown as running, and returns its agent.
func awaitRunning(ctx context.Context, name string) v1alpha1.AssignedAgent {
	GinkgoHelper()
	Eventually(phaseOf(ctx, name)).WithContext(ctx).Should(Equal(v1alpha1.TaskRunning))
	return taskNamed(ctx, name).Status.AssignedAgents[0]
}

// awaitAssigned waits until a task was assigned. A short one may have finished before the first check.
func awaitAssigned(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(phaseOf(ctx, name)).WithContext(ctx).Should(BeElementOf(v1alpha1.TaskRunning, v1alpha1.TaskCompleted))
}

// awaitPhase waits for the end of tasks.
func awaitPhase(ctx context.Context, phase v1alpha1.TaskPhase, names ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for _, name := range names {
			g.Expect(phaseOf(ctx, name)(g)).To(Equal(phase), name)
		}
	}).WithContext(ctx).WithTimeout(2 * timeout).Should(Succeed())
}

// readiness is an object's Ready condition.
func readiness(conditions []metav1.Condition) metav1.Condition {
	if found := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// isDeleted reports whether an object no longer exists.
func isDeleted(ctx context.Context, object client.Object) func() bool {
	return func() bool { return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(object), object)) }
}
