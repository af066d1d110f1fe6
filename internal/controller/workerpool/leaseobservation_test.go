package workerpool

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestLeaseObservationUsesLocalTime(t *testing.T) {
	begun := time.Unix(1000, 0)
	observedAt := func(seconds int, version, holder string) leaseObservation {
		moment := begun.Add(time.Duration(seconds) * time.Second)
		return leaseObservation{resourceVersion: version, holderUID: holder, duration: 15 * time.Second, observedSince: moment, checkedAt: moment}
	}
	first := leaseObservation{}.merge(observedAt(0, "1", "a"))
	for reason, c := range map[string]struct {
		seen    leaseObservation
		pod     string
		shadows bool
	}{
		"there is no Lease":                      {leaseObservation{}.merge(leaseObservation{checkedAt: begun}), "", false},
		"it was seen just now":                   {first, "", true},
		"it is as it was":                        {first.merge(observedAt(16, "1", "a")), "", true},
		"it is as it was for all of its time":    {first.merge(observedAt(17, "1", "a")), "", false},
		"it was renewed at the last moment":      {first.merge(observedAt(17, "2", "a")), "", true},
		"it was given back":                      {first.merge(observedAt(1, "2", "")), "", false},
		"it was deleted":                         {first.merge(leaseObservation{checkedAt: begun.Add(time.Second)}), "", false},
		"it is that of the pod that is there":    {first, "a", false},
		"it is that of the pod before":           {first, "b", true},
		"the pod that is there has taken it now": {first.merge(observedAt(1, "2", "b")), "b", false},
	} {
		var present *corev1.Pod
		if c.pod != "" {
			present = &corev1.Pod{}
			present.UID = types.UID(c.pod)
		}
		if got := c.seen.mayStillRun(present); got != c.shadows {
			t.Errorf("%s: a worker may live on: %t", reason, got)
		}
	}
	if !first.merge(observedAt(1, "2", "a")).renewed || first.merge(observedAt(1, "2", "b")).renewed || first.renewed {
		t.Error("renewed by whom")
	}
}
