package task

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// world is the observed state that a Task depends on.
type world struct {
	swarm *v1alpha1.Swarm // nil if it does not exist
	view  dispatch.TaskView
	stop  *stop  // it must end, or wait
	fault *fault // it can never run
	clock clock
	input input
}

// A stop is the state of a task that must no longer run.
type stop struct {
	phase   v1alpha1.TaskPhase
	reason  v1alpha1.Reason
	message string
}

// A fault is why a task can never run.
type fault struct {
	reason  v1alpha1.Reason
	message string
}

// observe reads what the task depends on, and its state in dispatch.
func (r *reconciler) observe(ctx context.Context, task *v1alpha1.Task, now time.Time) (world, error) {
	found := world{clock: r.readClock()}
	found.stop = stopping(task, now, found.clock)
	swarm := &v1alpha1.Swarm{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: task.Spec.SwarmRef.Name}, swarm)
	switch {
	case err == nil:
		found.swarm = swarm
	case !apierrors.IsNotFound(err):
		return found, fmt.Errorf("read swarm %q: %w", task.Spec.SwarmRef.Name, err)
	}
	brief := dispatch.TaskInput{Blocked: blocked(task, found.swarm)}
	if !task.Status.Phase.Final() {
		if found.input, err = r.readInput(ctx, task); err != nil {
			return found, err
		}
		found.fault, brief.Blocked = found.input.fault, cmp.Or(found.input.missing, brief.Blocked)
		if brief.PayloadByReference = found.input.referred; !brief.PayloadByReference && found.fault == nil {
			brief.Payload = found.input.inline
		}
	}
	if r.board.HasInvalidEpoch(task) {
		found.fault = &fault{v1alpha1.ReasonEpochInvalid, "status.epoch was set to a number that the operator has not given out: create the Task again"}
	}
	if found.fault != nil {
		brief.Blocked = &dispatch.Wait{Reason: found.fault.reason, Message: found.fault.message}
	}
	if found.stop != nil {
		brief.Stop = found.stop.order()
	}
	brief.WillEnd = found.fault != nil || brief.Stop == dispatch.Cancel || found.clock.passed(queueDeadline(task), now)
	found.view = r.board.Observe(task, brief)
	return found, nil
}

// blocked returns why a task cannot be assigned, even to a free agent.
func blocked(task *v1alpha1.Task, swarm *v1alpha1.Swarm) *dispatch.Wait {
	switch {
	case swarm == nil:
		message := fmt.Sprintf("there is no Swarm %q in namespace %q: create it, or delete this Task", task.Spec.SwarmRef.Name, task.Namespace)
		return &dispatch.Wait{Reason: v1alpha1.ReasonSwarmNotFound, Message: message}
	case task.Spec.Items != nil:
		return &dispatch.Wait{Reason: v1alpha1.ReasonNotSupported, Message: "items are not supported by this version of the operator: create a Task for each item"}
	case len(task.Spec.DependsOn) > 0:
		return &dispatch.Wait{Reason: v1alpha1.ReasonNotSupported, Message: "dependsOn is not supported by this version of the operator: create the Task when what it depends on is done"}
	}
	return nil
}

// stopping returns the effect of the user's request, or of a time limit, on a task.
func stopping(task *v1alpha1.Task, now time.Time, clock clock) *stop {
	switch {
	case task.Spec.Desired == v1alpha1.TaskCancel:
		return &stop{v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled, "cancelled by desired: Cancelled"}
	case clock.passed(deadline(task), now):
		return &stop{v1alpha1.TaskFailed, v1alpha1.ReasonTimedOut, fmt.Sprintf("not finished %d s after its creation (timeouts.totalSeconds)", task.Spec.Timeouts.TotalSeconds)}
	case task.Spec.Desired == v1alpha1.TaskSuspend:
		return &stop{v1alpha1.TaskPending, v1alpha1.ReasonSuspended, "suspended: set desired to Run to go on"}
	}
	return nil
}

// deadline returns the time limit of the task as a whole, zero for none.
func deadline(task *v1alpha1.Task) time.Time {
	if task.Spec.Timeouts == nil || task.Spec.Timeouts.TotalSeconds == 0 {
		return time.Time{}
	}
	return task.CreationTimestamp.Add(time.Duration(task.Spec.Timeouts.TotalSeconds) * time.Second)
}

// queueDeadline returns when the first attempt must have started, zero if it has, or for no limit.
func queueDeadline(task *v1alpha1.Task) time.Time {
	limits := task.Spec.Timeouts
	if limits == nil || limits.QueueSeconds == 0 || task.Status.StartTime != nil {
		return time.Time{}
	}
	return task.CreationTimestamp.Add(time.Duration(limits.QueueSeconds) * time.Second)
}

func (s *stop) order() dispatch.StopMode {
	if s.phase == v1alpha1.TaskPending {
		return dispatch.HandBack
	}
	return dispatch.Cancel
}
