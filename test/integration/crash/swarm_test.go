package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeagents"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// A testStage is an action of a user, and the check that it is done.
type testStage struct {
	name string
	act  func(ctx context.Context, r *run) error
	done func(ctx context.Context, r *run) error
}

// tasksStage is the stage in which agents have something to do.
const tasksStage = "3 tasks"

// taskRepetitions is how many times an operator is killed at each write while tasks run: it is random which agent finds its successor
// first, and only one of the orders shows the defect of a leader that assigns work too early.
const taskRepetitions = 3

// swarms is the life of a swarm.
var swarms = scenario{
	stages: []testStage{
		{"a swarm of 2 agents", createSwarm, agents(2)},
		{tasksStage, submit, tasksCompleted("quick-0", "quick-1", "slow")},
		{"scaled to 3 agents", scale(3), agents(3)},
		{"scaled to 1 agent", scale(1), agents(1)},
		{"deleted", remove, nothingLeft},
	},
	repeat:      map[string]int{tasksStage: taskRepetitions},
	concurrency: 6,
	startAgents: startAgents,
	verify:      stopAgents,
}

// startAgents starts the agents.
func startAgents(ctx context.Context, r *run) (err error) {
	log := testcluster.Log(slog.LevelError)
	r.agents, err = fakeagents.Start(ctx, cluster.Config, fakeagents.Options{Namespace: r.namespace, Handler: agent.HandlerFunc(work),
		Log: log})
	return err
}

// stopAgents stops the agents, and returns an error for what they did wrong.
func stopAgents(r *run) (entries []fmt.Stringer, problem error) {
	r.agents.Stop()
	for _, entry := range r.agents.Journal() {
		entries = append(entries, entry)
	}
	return entries, errors.Join(r.agents.Journal().Verify(), r.verifyResults())
}

// verifyResults checks that each accepted result is of an attempt that its agent saw succeed.
func (r *run) verifyResults() error {
	var problems []error
	for uid, epoch := range r.finished {
		if !slices.ContainsFunc(r.agents.Journal(), func(noted fakeagents.Entry) bool {
			return noted.UID == uid && noted.Epoch == epoch && noted.Event == "finish" && noted.Outcome == "succeeded"
		}) {
			problems = append(problems, fmt.Errorf("task %s has the result of epoch %d, which no agent saw succeed", uid, epoch))
		}
	}
	return errors.Join(problems...)
}

// name is what the swarm is called.
const name = "ants"

func createSwarm(ctx context.Context, r *run) error {
	return api.Create(ctx, &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: v1alpha1.SwarmSpec{Replicas: new(int32(2)), MaxAgents: 5, Agents: []v1alpha1.AgentType{{
			Type: "worker", Slots: 1, Capabilities: []string{"carry"},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "example.test/ant:1"}}}},
		}}},
	})
}

// submit creates tasks that end before their assignment would be written, and one that does not. That one is still running when the
// operator comes back, if it is killed meanwhile.
func submit(ctx context.Context, r *run) error {
	slow := 1300
	if r.proxy.crashesIn(tasksStage) {
		slow = 4000
	}
	for task, milliseconds := range map[string]int{"quick-0": 50, "quick-1": 50, "slow": slow} {
		payload, err := json.Marshal(map[string]int{"milliseconds": milliseconds})
		if err != nil {
			return err
		}
		err = api.Create(ctx, &v1alpha1.Task{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: task},
			Spec:       v1alpha1.TaskSpec{SwarmRef: v1alpha1.SwarmReference{Name: name}, Payload: &apiextensionsv1.JSON{Raw: payload}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func scale(replicas int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
		return api.Patch(ctx, &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}}, patch)
	}
}

func remove(ctx context.Context, r *run) error {
	return api.Delete(ctx, &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}})
}

// agents is done when the swarm has this many agents, all of them ready and none leaving.
func agents(count int32) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		swarm := &v1alpha1.Swarm{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, swarm); err != nil {
			return err
		}
		status := swarm.Status
		if finished := int32(len(r.finished)); finished > 0 && (status.Tasks == nil ||
			*status.Tasks != v1alpha1.TaskCounts{Completed: finished}) {
			return fmt.Errorf("the swarm counts %s", text(status.Tasks))
		}
		if status.ObservedGeneration != swarm.Generation || status.Replicas != count || status.ActiveAgents != count ||
			status.ReadyAgents != count {
			return fmt.Errorf("the swarm is at %s", text(status))
		}
		return nil
	}
}

func tasksCompleted(names ...string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for _, name := range names {
			task := &v1alpha1.Task{}
			if err := api.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, task); err != nil {
				return err
			}
			if task.Status.Phase != v1alpha1.TaskCompleted {
				return fmt.Errorf("task %s is at %s", name, text(task.Status))
			}
			r.finished[string(task.UID)] = task.Status.Epoch
		}
		return nil
	}
}

// nothingLeft is done when only the operator's own objects are left.
func nothingLeft(ctx context.Context, r *run) error {
	left, err := r.observe(ctx)
	if err == nil && len(left.lines) > 0 {
		return fmt.Errorf("left are\n%s", left)
	}
	kept := &corev1.Secret{}
	err = errors.Join(err, api.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: certs.SecretName}, kept))
	if err == nil && len(kept.Data) == 0 {
		err = errors.New("the Secret has a term and no keys yet")
	}
	published := &corev1.ConfigMap{}
	return errors.Join(err, api.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: certs.ConfigMapName}, published))
}

// work takes the time in the payload.
func work(ctx context.Context, task agent.Task, _ agent.Report) (any, error) {
	var order struct{ Milliseconds int }
	if err := task.Decode(&order); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(order.Milliseconds) * time.Millisecond):
		return map[string]string{"task": task.Name}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
