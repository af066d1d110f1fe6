package task

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func TestTimeLeft(t *testing.T) {
	finished := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		own, swarms *int32
		age         time.Duration
		left        time.Duration
		expires     bool
	}{
		"no limit":                       {nil, nil, time.Hour, 0, false},
		"its own":                        {new(int32(60)), nil, 10 * time.Second, 50 * time.Second, true},
		"its own before that of a swarm": {new(int32(60)), new(int32(5)), 10 * time.Second, 50 * time.Second, true},
		"that of its swarm":              {nil, new(int32(30)), 10 * time.Second, 20 * time.Second, true},
		"over":                           {new(int32(60)), nil, 61 * time.Second, -time.Second, true},
		"at once":                        {new(int32(0)), nil, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			task, swarm := &v1alpha1.Task{}, &v1alpha1.Swarm{}
			task.Spec.TTLSecondsAfterFinished, swarm.Spec.Tasks.TTLSecondsAfterFinished = test.own, test.swarms
			task.Status.CompletionTime = new(metav1.NewTime(finished))
			left, expires := timeLeft(task, swarm, finished.Add(test.age))
			if left != test.left || expires != test.expires {
				t.Errorf("%s, %t; want %s, %t", left, expires, test.left, test.expires)
			}
		})
	}
}
