package payload

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func taskWithPayload(payload string, phase v1alpha1.TaskPhase) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.Spec.Payload, task.Status.Phase = &apiextensionsv1.JSON{Raw: []byte(payload)}, phase
	return task
}

// jsonObject is a JSON object of so many bytes.
func jsonObject(size int) string { return `{"a":"` + strings.Repeat("x", size-8) + `"}` }

func TestWhatIsNotReadFromTheCacheIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		payload string
		phase   v1alpha1.TaskPhase
		kept    string
	}{
		"a small one":                   {jsonObject(MaxKept), v1alpha1.TaskPending, jsonObject(MaxKept)},
		"a large one":                   {jsonObject(MaxKept + 1), v1alpha1.TaskPending, "513"},
		"a large one of a new task":     {jsonObject(8 << 10), "", "8192"},
		"a large one of a running task": {jsonObject(8 << 10), v1alpha1.TaskRunning, "8192"},
		"a small one of a done task":    {jsonObject(MaxKept), v1alpha1.TaskCompleted, "512"},
		"a number would be no smaller":  {"{", v1alpha1.TaskFailed, "{"},
		"none":                          {"", v1alpha1.TaskFailed, ""},
	} {
		task := taskWithPayload(c.payload, c.phase)
		for range 2 { // a cache may transform an object again
			Drop(task)
			size, whole := Size(task)
			if got := string(task.Spec.Payload.Raw); got != c.kept || size != len(c.payload) || whole != (c.kept == c.payload) {
				t.Errorf("%s: kept %q, %d bytes, whole %t", name, got, size, whole)
			}
		}
	}
}

func TestTaskWithoutPayload(t *testing.T) {
	task := &v1alpha1.Task{}
	Drop(task)
	if size, whole := Size(task); size != 0 || !whole || task.Spec.Payload != nil {
		t.Errorf("%d bytes, whole %t, %v", size, whole, task.Spec.Payload)
	}
}
