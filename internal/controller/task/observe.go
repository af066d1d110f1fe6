package task

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// snapshot is the observed state that a Task depends on.
type snapshot struct {
	swarm       *v1alpha1.Swarm // nil if it does not exist
	view        dispatch.TaskView
	stopRequest *stopRequest      // it must end, or wait
	failure     *permanentFailure // it can never run
	clock       clockState
	payload     taskPayload
}

// A stopRequest is the state of a task that must no longer run.
type stopRequest struct {
	phase   v1alpha1.TaskPhase
	reason  v1alpha1.Reason
	message string
}

// A permanentFailure is why a task can never run.
type permanentFailure struct {
	reason  v1alpha1.Reason
	message string
}

// observe reads what the task depends on, and its state in dispatch.
func (r *reconciler) observe(ctx context.Context, task *v1alpha1.Task, now time.Time) (snapshot, error) {
	snapshot := snapshot{clock: r.readClock()}
	snapshot.stopRequest = stopRequestOf(task, now, snapshot.clock)
	swarm := &v1alpha1.Swarm{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: task.Spec.SwarmRef.Name}, swarm)
	switch {
	case err == nil:
		snapshot.swarm = swarm
	case !apierrors.IsNotFound(err):
		return snapshot, fmt.Errorf("read swarm %q: %w", task.Spec.SwarmRef.Name, err)
	}
	input := dispatch.TaskInput{Blocked: blockReason(task, snapshot.swarm)}
	if !task.Status.Phase.Final() {
		if snapshot.payload, err = r.readPayload(ctx, task); err != nil {
			return snapshot, err
		}
		snapshot.failure, input.Blocked = snapshot.payload.failure, cmp.Or(snapshot.payload.missing, input.Blocked)
		if input.PayloadByReference = snapshot.payload.byReference; !input.PayloadByReference && snapshot.failure == nil {
			input.Payload = snapshot.payload.inline
		}
	}
	if r.dispatcher.HasInvalidEpoch(task) {
		snapshot.failure = &permanentFailure{v1alpha1.ReasonEpochInvalid,
			"status.epoch was set to a number that the operator has not given out: create the Task again"}
	}
	if snapshot.failure != nil {
		input.Blocked = &dispatch.Wait{Reason: snapshot.failure.reason, Message: snapshot.failure.message}
	}
	if snapshot.stopRequest != nil {
		input.Stop = snapshot.stopRequest.mode()
	}
	input.WillEnd = snapshot.failure != nil || input.Stop == dispatch.Cancel || snapshot.clock.hasPassed(queueDeadline(task), now)
	snapshot.view = r.dispatcher.Observe(task, input)
	return snapshot, nil
}

// blockReason returns why a task cannot be assigned, even to a free agent.
func blockReason(task *v1alpha1.Task, swarm *v1alpha1.Swarm) *dispatch.Wait {
	switch {
	case swarm == nil:
		message := fmt.Sprintf("there is no Swarm %q in namespace %q: create it, or delete this Task", task.Spec.SwarmRef.Name, task.Namespace)
		return &dispatch.Wait{Reason: v1alpha1.ReasonSwarmNotFound, Message: message}
	case task.Spec.Items != nil:
		return &dispatch.Wait{Reason: v1alpha1.ReasonNotSupported,
			Message: "items are not supported by this version of the operator: create a Task for each item"}
	case len(task.Spec.DependsOn) > 0:
		return &dispatch.Wait{Reason: v1alpha1.ReasonNotSupported,
			Message: "dependsOn is not supported by this version of the operator: create the Task when what it depends on is done"}
	}
	return nil
}

// stopRequestOf returns the effect of the user's request, or of a time limit, on a task.
func stopRequestOf(task *v1alpha1.Task, now time.Time, clock clockState) *stopRequest {
	switch {
	case task.Spec.Desired == v1alpha1.TaskCancel:
		return &stopRequest{v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled, "cancelled by desired: Cancelled"}
	case clock.hasPassed(deadline(task), now):
		return &stopRequest{v1alpha1.TaskFailed, v1alpha1.ReasonTimedOut,
			fmt.Sprintf("not finished %d s after its creation (timeouts.totalSeconds)", task.Spec.Timeouts.TotalSeconds)}
	case task.Spec.Desired == v1alpha1.TaskSuspend:
		return &stopRequest{v1alpha1.TaskPending, v1alpha1.ReasonSuspended, "suspended: set desired to Run to go on"}
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

func (s *stopRequest) mode() dispatch.StopMode {
	if s.phase == v1alpha1.TaskPending {
		return dispatch.HandBack
	}
	return dispatch.Cancel
}
