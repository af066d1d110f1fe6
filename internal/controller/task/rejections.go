package task

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

const (
	// A status refused this often, over this period, will not be accepted. The period covers the replacement of a CRD.
	maxRejections, rejectionPeriod = 3, 10 * time.Second

	rejectedMessage = "the API server refused to store how the last attempt ended, so its result is lost: see the log of the operator"
)

// statusRejections counts how often the API server refused the content of a status with the end of an attempt. Retrying does not help then:
// without a limit the task would never finish, and its agent would offer the result forever.
type statusRejections struct {
	lock  sync.Mutex
	tasks map[types.NamespacedName]statusRejection
}

type statusRejection struct {
	uid   types.UID
	epoch int64 // of the attempt
	count int
	since time.Time
}

// record records the outcome of writing the end of an attempt.
func (r *statusRejections) record(task *v1alpha1.Task, end *dispatch.AttemptEnd, err error) {
	if end == nil {
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
	rejection := r.tasks[name]
	if rejection.uid != task.UID || rejection.epoch != end.Epoch {
		rejection = statusRejection{uid: task.UID, epoch: end.Epoch, since: time.Now()}
	}
	rejection.count++
	if r.tasks == nil {
		r.tasks = map[types.NamespacedName]statusRejection{}
	}
	r.tasks[name] = rejection
}

// isPermanent reports whether the end of an attempt was refused too often.
func (r *statusRejections) isPermanent(task *v1alpha1.Task, end *dispatch.AttemptEnd) bool {
	if end == nil {
		return false
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	rejection := r.tasks[client.ObjectKeyFromObject(task)]
	return rejection.uid == task.UID && rejection.epoch == end.Epoch && rejection.count >= maxRejections &&
		time.Since(rejection.since) >= rejectionPeriod
}

func (r *statusRejections) forget(name types.NamespacedName) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.tasks, name)
}

// planRejected ends a task whose last attempt has an end that the API server does not store. Nothing in this plan comes from the agent.
func planRejected(task *v1alpha1.Task, end dispatch.AttemptEnd, clock clockState, now time.Time) Plan {
	p := &planner{task: task, snapshot: snapshot{clock: clock}, now: now, Plan: Plan{Status: *task.Status.DeepCopy()}}
	p.recordAttempt(end.Attempt, end.Epoch, end.Since)
	p.fail(v1alpha1.ReasonResultInvalid, rejectedMessage)
	p.Status.Progress, p.Status.Result, p.Event = 0, nil, corev1.EventTypeWarning
	return p.Plan
}
