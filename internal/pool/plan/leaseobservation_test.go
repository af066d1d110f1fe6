package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestLeaseObservationUsesLocalTime(t *testing.T) {
	begun := time.Unix(1000, 0)
	observedAt := func(seconds int, version, holder string) LeaseObservation {
		moment := begun.Add(time.Duration(seconds) * time.Second)
		return LeaseObservation{ResourceVersion: version, HolderUID: holder, Duration: 15 * time.Second, ObservedSince: moment, CheckedAt: moment}
	}
	first := LeaseObservation{}.Merge(observedAt(0, "1", "a"))
	for reason, c := range map[string]struct {
		seen    LeaseObservation
		pod     string
		shadows bool
	}{
		"there is no Lease":                      {LeaseObservation{}.Merge(LeaseObservation{CheckedAt: begun}), "", false},
		"it was seen just now":                   {first, "", true},
		"it is as it was":                        {first.Merge(observedAt(16, "1", "a")), "", true},
		"it is as it was for all of its time":    {first.Merge(observedAt(17, "1", "a")), "", false},
		"it was renewed at the last moment":      {first.Merge(observedAt(17, "2", "a")), "", true},
		"it was given back":                      {first.Merge(observedAt(1, "2", "")), "", false},
		"it was deleted":                         {first.Merge(LeaseObservation{CheckedAt: begun.Add(time.Second)}), "", false},
		"it is that of the pod that is there":    {first, "a", false},
		"it is that of the pod before":           {first, "b", true},
		"the pod that is there has taken it now": {first.Merge(observedAt(1, "2", "b")), "b", false},
	} {
		var present *corev1.Pod
		if c.pod != "" {
			present = &corev1.Pod{}
			present.UID = types.UID(c.pod)
		}
		if got := c.seen.MayStillRun(present); got != c.shadows {
			t.Errorf("%s: a worker may live on: %t", reason, got)
		}
	}
	if !first.Merge(observedAt(1, "2", "a")).renewed || first.Merge(observedAt(1, "2", "b")).renewed || first.renewed {
		t.Error("renewed by whom")
	}
}
