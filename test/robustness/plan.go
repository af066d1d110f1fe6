package main

import (
	"math/rand/v2"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A taskPlan is what a user wants of one task: the work, its limits, and how spec.desired changes while it waits or runs.
type taskPlan struct {
	order   taskOrder
	limits  v1alpha1.TaskTimeouts
	changes []change
}

// A change is another spec.desired.
type change struct {
	after   time.Duration // the change before, or the creation
	desired v1alpha1.TaskDesire
}

// drawPlan mostly plans work without limits that the user does not change.
func drawPlan(random *rand.Rand) taskPlan {
	plan := taskPlan{order: drawOrder(random)}
	switch dice := random.IntN(100); {
	case dice < 4:
		plan.cancel(random)
	case dice < 8:
		plan.suspend(random)
	case dice < 11:
		plan.limits.QueueSeconds = 1 + random.Int32N(15)
	case dice < 13:
		plan.limits.TotalSeconds = 2 + random.Int32N(15)
	case dice < 16:
		plan.limits.RunSeconds = 1 + random.Int32N(2)
		plan.order.Milliseconds = 500 + random.IntN(3000)
	}
	return plan
}

// drawOrder is mostly short work. Some takes longer than an agent's lease, some fails once, and some ignores requests to stop.
func drawOrder(random *rand.Rand) taskOrder {
	order := taskOrder{Milliseconds: 50 + random.IntN(450)}
	switch dice := random.IntN(100); {
	case dice < 4:
		order = taskOrder{Milliseconds: int(agentLease.Milliseconds()) + random.IntN(4000), IgnoresStop: dice == 0}
	case dice < 12:
		order = taskOrder{Milliseconds: 1000 + random.IntN(4000), IgnoresStop: dice == 4}
	case dice < 16:
		order.Failures = 1
	}
	return order
}

// cancel ends the task while it waits or runs, or after it has finished.
func (p *taskPlan) cancel(random *rand.Rand) {
	p.changes = append(p.changes, change{p.randomDelay(random), v1alpha1.TaskCancel})
}

// suspend suspends the task for a while. Then it continues, or it is cancelled.
func (p *taskPlan) suspend(random *rand.Rand) {
	p.changes = append(p.changes, change{p.randomDelay(random), v1alpha1.TaskSuspend})
	next := change{100*time.Millisecond + duration(random, 5*time.Second), v1alpha1.TaskRun}
	if random.IntN(4) == 0 {
		next.desired = v1alpha1.TaskCancel
	}
	p.changes = append(p.changes, next)
}

// randomDelay is the delay before a user's change: half of the time it is short, while most tasks wait. The other tasks get work that takes
// seconds, so that many of them run by then.
func (p *taskPlan) randomDelay(random *rand.Rand) time.Duration {
	if random.IntN(2) == 0 {
		return duration(random, time.Second)
	}
	p.order.Milliseconds = max(p.order.Milliseconds, 1000+random.IntN(4000))
	return duration(random, 12*time.Second)
}

func duration(random *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(below)))
}

// creation is the request that a task begins with.
func (p taskPlan) creation() *Request {
	return &Request{
		Desired: v1alpha1.TaskRun, QueueSeconds: p.limits.QueueSeconds, RunSeconds: p.limits.RunSeconds, TotalSeconds: p.limits.TotalSeconds,
	}
}
