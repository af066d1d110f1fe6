package task

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/internal/swarm/payload"
)

// kubectl wait uses conditions: they must match the phase.
func TestConditionsFollowThePhase(t *testing.T) {
	for phase, want := range map[v1alpha1.TaskPhase][2]bool{ // Ready, Progressing
		v1alpha1.TaskPending:   {false, true},
		v1alpha1.TaskRunning:   {false, true},
		v1alpha1.TaskCompleted: {true, false},
		v1alpha1.TaskFailed:    {false, false},
		v1alpha1.TaskCancelled: {false, false},
	} {
		task := &v1alpha1.Task{}
		task.Status.Phase, task.Status.Reason = phase, "Because"
		conditions := conditionsOf(task)
		for n, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionProgressing} {
			condition := meta.FindStatusCondition(conditions, kind)
			if condition == nil || (condition.Status == metav1.ConditionTrue) != want[n] || condition.Reason == "" {
				t.Errorf("%s: %s is %+v, want %t", phase, kind, condition, want[n])
			}
		}
	}
}

func TestLimitsOfWhatAStatusHolds(t *testing.T) {
	end := endSnapshot(linkv1.Outcome_OUTCOME_SUCCEEDED, func(end *dispatch.AttemptEnd) {
		end.Value = []byte(`"` + strings.Repeat("1", 4094) + `"`)
	})
	if got := plan(&v1alpha1.Task{}, end, noon); got.Status.Phase != v1alpha1.TaskCompleted || got.Status.Result == nil ||
		len(got.Status.Result.Raw) != 4096 {
		t.Errorf("a result of 4 KiB: %s", got.Status.Phase)
	}
	whole := strings.Repeat("a", 4096)
	if truncateMessage(whole) != whole {
		t.Error("a message that fits was shortened")
	}
	if got := truncateMessage("b" + whole); len(got) != 4096 || !strings.HasPrefix(got, "...a") {
		t.Errorf("%d bytes, %.10q", len(got), got)
	}
}

// The limit of the queue is for the first attempt. A task that has started once may wait for the next attempt without limit.
func TestTaskThatHasBegunDoesNotTimeOutInTheQueue(t *testing.T) {
	task := &v1alpha1.Task{}
	task.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	task.Spec.Timeouts = &v1alpha1.TaskTimeouts{QueueSeconds: 60}
	task.Status.StartTime = new(metav1.NewTime(noon.Add(-time.Hour)))
	if got := plan(task, waitingSnapshot(v1alpha1.ReasonNoFreeSlot, time.Minute), noon); got.Status.Phase != v1alpha1.TaskPending {
		t.Errorf("phase %s, %s", got.Status.Phase, got.Status.Message)
	}
	task.Spec.Timeouts.QueueSeconds, task.Status.StartTime = 0, nil
	if got := plan(task, waitingSnapshot(v1alpha1.ReasonNoFreeSlot, time.Minute), noon); got.Status.Phase != v1alpha1.TaskPending {
		t.Errorf("no limit: phase %s, %s", got.Status.Phase, got.Status.Message)
	}
}

func TestFinishedTaskHasNoAssignment(t *testing.T) {
	task := &v1alpha1.Task{}
	setRunning(task)
	task.Status.NextRetryTime = new(metav1.NewTime(noon))
	got := plan(task, snapshot{view: waitingSnapshot("", 0).view, stopRequest: cancelRequest}, noon).Status
	if got.Phase != v1alpha1.TaskCancelled || got.AssignedAgents != nil || got.ActiveAttempts != 0 || got.NextRetryTime != nil ||
		!got.CompletionTime.Time.Equal(noon.Truncate(time.Second)) {
		t.Errorf("got %+v", got)
	}
}

func TestRetriesWaitAtLeastASecond(t *testing.T) {
	if got := backoff(v1alpha1.TaskRetry{}, 1); got != time.Second {
		t.Errorf("got %s", got)
	}
	if got := backoff(v1alpha1.TaskRetry{InitialSeconds: 3, Factor: 2, MaxSeconds: 100}, 3); got != 12*time.Second {
		t.Errorf("got %s", got)
	}
}

func TestTaskThatNoAgentCanRunIsBlocked(t *testing.T) {
	for reason, c := range map[string]struct {
		change func(*v1alpha1.Task)
		swarm  *v1alpha1.Swarm
		want   v1alpha1.Reason
	}{
		"nothing is missing": {nil, &v1alpha1.Swarm{}, ""},
		"no swarm":           {nil, nil, v1alpha1.ReasonSwarmNotFound},
		"depends on another": {func(task *v1alpha1.Task) { task.Spec.DependsOn = make([]v1alpha1.TaskDependency, 1) }, &v1alpha1.Swarm{},
			v1alpha1.ReasonNotSupported},
	} {
		task := &v1alpha1.Task{}
		if c.change != nil {
			c.change(task)
		}
		if got := blockReason(task, c.swarm); (got == nil) != (c.want == "") || got != nil && got.Reason != c.want {
			t.Errorf("%s: got %+v", reason, got)
		}
	}
}

// failingClient is a cluster that fails all reads.
type failingClient struct{ client.Client }

func (failingClient) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errServer
}

func TestTaskWhoseSwarmCannotBeReadIsTriedAgain(t *testing.T) {
	if _, err := (&reconciler{client: failingClient{}}).Reconcile(t.Context(), &v1alpha1.Task{}); !errors.Is(err, errServer) {
		t.Errorf("got %v", err)
	}
}

// configMapDataClient is a cluster with one ConfigMap.
type configMapDataClient struct {
	client.Client
	data map[string]string
	err  error
}

func (c configMapDataClient) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.(*corev1.ConfigMap).Data = c.data
	return c.err
}

func TestPayloadFromAConfigMap(t *testing.T) {
	for reason, c := range map[string]struct {
		cluster       configMapDataClient
		blocked, bad  v1alpha1.Reason
		fails, passes bool
	}{
		"read":           {cluster: configMapDataClient{data: map[string]string{"k": ` {"a": 1} `}}, passes: true},
		"key is missing": {cluster: configMapDataClient{}, blocked: v1alpha1.ReasonPayloadNotFound},
		"not JSON":       {cluster: configMapDataClient{data: map[string]string{"k": "[1]"}}, bad: v1alpha1.ReasonBadInput},
		"too large": {cluster: configMapDataClient{data: map[string]string{"k": strings.Repeat(" ", maxConfigMapPayload+1)}},
			bad: v1alpha1.ReasonPayloadTooLarge},
		"cannot be read": {cluster: configMapDataClient{err: errServer}, fails: true},
	} {
		t.Run(reason, func(t *testing.T) {
			r := &reconciler{client: c.cluster}
			result, err := r.readConfigMap(t.Context(), &v1alpha1.Task{}, v1alpha1.ConfigMapKey{Name: "c", Key: "k"})
			if (err != nil) != c.fails || (result.missing != nil) != (c.blocked != "") || (result.failure != nil) != (c.bad != "") {
				t.Fatalf("got %v, blocked %+v, fault %+v", err, result.missing, result.failure)
			}
			if result.missing != nil && result.missing.Reason != c.blocked || result.failure != nil && result.failure.reason != c.bad {
				t.Errorf("blocked %+v, fault %+v", result.missing, result.failure)
			}
			if c.passes && result.configMapText != `{"a": 1}` {
				t.Errorf("got %q", result.configMapText)
			}
		})
	}
}

func TestPayloadInTheTaskIsLimited(t *testing.T) {
	for size, fits := range map[int]bool{maxPayload: true, maxPayload + 1: false} {
		task := &v1alpha1.Task{}
		task.Spec.Payload = &apiextensionsv1.JSON{Raw: bytes.Repeat([]byte(" "), size)}
		for _, kept := range []bool{true, false} {
			if result, err := (&reconciler{}).readPayload(t.Context(), task); err != nil || (result.failure == nil) != fits ||
				fits && result.byReference == kept {
				t.Errorf("%d bytes, kept %t: %v, %+v", size, kept, err, result)
			}
			payload.Drop(task)
		}
	}
}
