package main

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func drawPlans(seed uint64, count int) (plans []taskPlan) {
	random := rand.New(rand.NewPCG(seed, ^seed))
	for range count {
		plans = append(plans, drawPlan(random))
	}
	return plans
}

func TestTheSameSeedGivesTheSameTasks(t *testing.T) {
	one, again, other := drawPlans(7, 200), drawPlans(7, 200), drawPlans(8, 200)
	if !reflect.DeepEqual(one, again) {
		t.Error("the same seed gave other tasks")
	}
	if reflect.DeepEqual(one, other) {
		t.Error("another seed gave the same tasks")
	}
}

func TestAllKindsOfTasksHappen(t *testing.T) {
	counts := map[string]int{}
	for _, plan := range drawPlans(1, 1000) {
		for _, next := range plan.changes {
			counts[string(next.desired)]++
		}
		limits := map[string]int32{"queue": plan.limits.QueueSeconds, "run": plan.limits.RunSeconds, "total": plan.limits.TotalSeconds}
		for name, seconds := range limits {
			if seconds > 0 {
				counts[name]++
			}
		}
		if plan.order.IgnoresStop {
			counts["stubborn"]++
		}
	}
	for _, kind := range []string{"Cancelled", "Suspended", "Run", "queue", "run", "total", "stubborn"} {
		if counts[kind] < 5 {
			t.Errorf("%s happened %d times in 1000 tasks", kind, counts[kind])
		}
	}
}

// A task that stays suspended would never finish.
func TestNoTaskStaysSuspended(t *testing.T) {
	for _, plan := range drawPlans(1, 1000) {
		if last := len(plan.changes) - 1; last >= 0 && plan.changes[last].desired == v1alpha1.TaskSuspend {
			t.Fatalf("plan %+v", plan)
		}
	}
}
