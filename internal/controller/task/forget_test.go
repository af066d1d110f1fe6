package task

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// stubReader is an API server with the same response for every task.
type stubReader struct {
	client.Reader
	err   error
	reads int
}

func (a *stubReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	a.reads++
	return a.err
}

// stubDependencies is the environment of a dispatcher, and counts acknowledgements.
type stubDependencies struct{ acknowledged int }

func (d *stubDependencies) Send(_ link.Agent, message *linkv1.OperatorMessage) error {
	if message.GetAcknowledge() != nil {
		d.acknowledged++
	}
	return nil
}
func (d *stubDependencies) LastHeard(link.Agent) (time.Time, bool)    { return time.Now(), true }
func (d *stubDependencies) Disconnect(link.Agent, time.Time) bool     { return true }
func (d *stubDependencies) Term() int64                               { return 2 }
func (d *stubDependencies) RaiseTerm(int64) int64                     { return 2 }
func (d *stubDependencies) After(types.NamespacedName, time.Duration) {}

// The cache of a new leader may lack a task whose result an agent reports. A result acknowledged before it is stored is lost.
func TestResultOfATaskThatTheCacheLacksIsNotAcknowledgedUnseen(t *testing.T) {
	errAway := errors.New("the API server is away")
	for name, c := range map[string]struct {
		answer       error
		fails        error
		acknowledged int
	}{
		"the cache is behind":        {nil, nil, 0},
		"the task is gone":           {apierrors.NewNotFound(tasksResource, "t"), nil, 1},
		"it cannot be read just now": {errAway, errAway, 0},
	} {
		t.Run(name, func(t *testing.T) {
			deps, live := &stubDependencies{}, &stubReader{err: c.answer}
			dispatcher := dispatch.New(dispatch.Config{
				Lease: time.Minute, Leadership: deps, Tasks: deps, Agents: deps, Swarms: deps, Metrics: prometheus.NewRegistry(),
			})
			dispatcher.Connect(deps)
			dispatcher.Open(dispatch.Snapshot{})
			result := &linkv1.Result{Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED, Attempt: &linkv1.Attempt{
				Namespace: "default", Task: "t", TaskUid: "uid", Attempt: 1, Epoch: 1<<32 | 1,
			}}
			hello := &linkv1.Hello{Swarm: swarmName, Slots: 1, Unacknowledged: []*linkv1.Result{result}}
			if err := dispatcher.Joined(link.Agent{Namespace: "default", Name: "a"}, "pod", hello); err != nil {
				t.Fatal(err)
			}
			r := &reconciler{apiReader: live, dispatcher: dispatcher}
			if err := r.handleDeleted(t.Context(), namespacedName("t")); !errors.Is(err, c.fails) || deps.acknowledged != c.acknowledged {
				t.Errorf("acknowledged %d, %v", deps.acknowledged, err)
			}
			if err := r.handleDeleted(t.Context(), namespacedName("unheard of")); err != nil || live.reads != 1 {
				t.Errorf("asked the API server %d times, %v: no agent reports on the second task", live.reads, err)
			}
		})
	}
}
