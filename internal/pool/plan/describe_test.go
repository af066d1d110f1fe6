package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

func TestWorkersThatHaveLeftAreNotListed(t *testing.T) {
	holder := recordOf(2, "a")
	for reason, c := range map[string]struct {
		pod    *corev1.Pod
		wanted bool
		record assign.Record
		listed bool
	}{
		"it has left":                        {nil, false, recordOf(2), false},
		"it never had a list":                {nil, false, assign.Record{}, false},
		"its pod is missing":                 {nil, true, recordOf(2), true},
		"its pod has yet to go":              {podNamed("w-2"), false, recordOf(2), true},
		"its process may still have its job": {nil, false, holder, true},
	} {
		c.record.Worker = "w-2"
		p := &planner{pool: newPool(), clocks: &Clocks{}, records: []assign.Record{c.record}}
		p.memberSet.members = []member{{Worker: assign.Worker{Name: "w-2", Ordinal: 2}, pod: c.pod, wanted: c.wanted}}
		p.describeWorkers()
		if listed := len(p.Workers) == 1; listed != c.listed {
			t.Errorf("%s: listed %+v", reason, p.Workers)
		}
	}
}
