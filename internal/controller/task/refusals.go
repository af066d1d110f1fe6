package task

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

const (
	// A status refused this often, over this period, will not be accepted. The period covers the replacement of a CRD.
	mostRefusals, refusedFor = 3, 10 * time.Second

	refusedMessage = "the API server refused to store how the last attempt ended, so its result is lost: see the log of the operator"
)

// refusals counts how often the API server refused the content of a status with the end of an attempt. Retrying does not help then:
// without a limit the task would never finish, and its agent would offer the result forever.
type refusals struct {
	lock  sync.Mutex
	tasks map[types.NamespacedName]refusal
}

type refusal struct {
	uid   types.UID
	epoch int64 // of the attempt
	count int
	since time.Time
}

// note records the outcome of writing the end of an attempt.
func (r *refusals) note(task *v1alpha1.Task, ended *dispatch.AttemptEnd, err error) {
	if ended == nil {
		return
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	name := client.ObjectKeyFromObject(task)
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		if err == nil {
			delete(r.tasks, name)
		}
		return
	}
	known := r.tasks[name]
	if known.uid != task.UID || known.epoch != ended.Epoch {
		known = refusal{uid: task.UID, epoch: ended.Epoch, since: time.Now()}
	}
	known.count++
	if r.tasks == nil {
		r.tasks = map[types.NamespacedName]refusal{}
	}
	r.tasks[name] = known
}

// final reports whether the end of an attempt was refused too often.
func (r *refusals) final(task *v1alpha1.Task, ended *dispatch.AttemptEnd) bool {
	if ended == nil {
		return false
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	known := r.tasks[client.ObjectKeyFromObject(task)]
	return known.uid == task.UID && known.epoch == ended.Epoch && known.count >= mostRefusals && time.Since(known.since) >= refusedFor
}

func (r *refusals) forget(name types.NamespacedName) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.tasks, name)
}

// planRefused ends a task whose last attempt has an end that the API server does not store. Nothing in this plan comes from the agent.
func planRefused(task *v1alpha1.Task, ended dispatch.AttemptEnd, clock clock, now time.Time) Plan {
	p := &planner{task: task, world: world{clock: clock}, now: now, Plan: Plan{Status: *task.Status.DeepCopy()}}
	p.begin(ended.Attempt, ended.Epoch, ended.Since)
	p.fail(v1alpha1.ReasonResultInvalid, refusedMessage)
	p.Status.Progress, p.Status.Result, p.Event = 0, nil, corev1.EventTypeWarning
	return p.Plan
}
