package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

const (
	// mostPayload may stand in the Task itself, mostReferred in a ConfigMap: a frame of the link has 1 MiB.
	mostPayload, mostReferred = 8 << 10, 512 << 10
)

// world is what a Task depends on.
type world struct {
	swarm *v1alpha1.Swarm // nil when there is none
	view  dispatch.View
	stop  *stop  // it is to end, or to wait
	fault *fault // it can never run
	clock clock

	payload []byte
}

// A stop is what a task comes to when it no longer runs.
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

// observe reads what the task depends on, and asks dispatch about it.
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
	brief := dispatch.Brief{Blocked: blocked(task, found.swarm)}
	if !task.Status.Phase.Final() {
		if found.payload, err = r.payload(ctx, task, &found, &brief); err != nil {
			return found, err
		}
		if brief.Referred = task.Spec.PayloadFrom != nil; !brief.Referred && found.fault == nil {
			brief.Payload = found.payload
		}
	}
	if r.board.EpochInvalid(task) {
		found.fault = &fault{v1alpha1.ReasonEpochInvalid, "status.epoch was set to a number that the operator has not given out: create the Task again"}
	}
	if found.fault != nil {
		brief.Blocked = &dispatch.Wait{Reason: found.fault.reason, Message: found.fault.message}
	}
	if found.stop != nil {
		brief.Stop = found.stop.order()
	}
	brief.Ends = found.fault != nil || brief.Stop == dispatch.Cancel || found.clock.passed(queueDeadline(task), now)
	found.view = r.board.Observe(task, brief)
	return found, nil
}

// blocked is why a task cannot be given out, whoever is free.
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

// stopping is what the user, or a time limit, makes of a task.
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

// deadline is when the task as a whole has to be done; zero when it may take any time.
func deadline(task *v1alpha1.Task) time.Time {
	if task.Spec.Timeouts == nil || task.Spec.Timeouts.TotalSeconds == 0 {
		return time.Time{}
	}
	return task.CreationTimestamp.Add(time.Duration(task.Spec.Timeouts.TotalSeconds) * time.Second)
}

// queueDeadline is when the first attempt has to have begun; zero when it has, or may take any time.
func queueDeadline(task *v1alpha1.Task) time.Time {
	limits := task.Spec.Timeouts
	if limits == nil || limits.QueueSeconds == 0 || task.Status.StartTime != nil {
		return time.Time{}
	}
	return task.CreationTimestamp.Add(time.Duration(limits.QueueSeconds) * time.Second)
}

func (s *stop) order() dispatch.Stop {
	if s.phase == v1alpha1.TaskPending {
		return dispatch.HandBack
	}
	return dispatch.Cancel
}

// payload is what the code gets to read. A task without one gets an empty object, so that the input is always JSON.
func (r *reconciler) payload(ctx context.Context, task *v1alpha1.Task, found *world, brief *dispatch.Brief) ([]byte, error) {
	source := task.Spec.PayloadFrom
	switch {
	case source != nil:
		return r.referred(ctx, task, source.ConfigMapKeyRef, found, brief)
	case task.Spec.Payload == nil:
		return []byte("{}"), nil
	}
	if size := len(task.Spec.Payload.Raw); size > mostPayload {
		found.fault = &fault{v1alpha1.ReasonPayloadTooLarge, fmt.Sprintf("payload has %d bytes, the limit is %d: put it into a ConfigMap and name that in payloadFrom", size, mostPayload)}
	}
	return task.Spec.Payload.Raw, nil
}

// referred is the payload from a ConfigMap. One that is not there may still come.
func (r *reconciler) referred(ctx context.Context, task *v1alpha1.Task, from v1alpha1.ConfigMapKey, found *world, brief *dispatch.Brief) ([]byte, error) {
	config := &corev1.ConfigMap{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: from.Name}, config)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read payload from ConfigMap %q: %w", from.Name, err)
	}
	text, exists := config.Data[from.Key]
	var object map[string]json.RawMessage
	switch {
	case err != nil || !exists:
		brief.Blocked = &dispatch.Wait{Reason: v1alpha1.ReasonPayloadNotFound, Message: fmt.Sprintf("there is no key %q in a ConfigMap %q: create it", from.Key, from.Name)}
	case len(text) > mostReferred:
		found.fault = &fault{v1alpha1.ReasonPayloadTooLarge, fmt.Sprintf("key %q of ConfigMap %q has %d bytes, the limit is %d", from.Key, from.Name, len(text), mostReferred)}
	case json.Unmarshal([]byte(text), &object) != nil:
		found.fault = &fault{v1alpha1.ReasonBadInput, fmt.Sprintf("key %q of ConfigMap %q is not a JSON object", from.Key, from.Name)}
	}
	return bytes.TrimSpace([]byte(text)), nil
}
