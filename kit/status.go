package kit

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	// maxNoteLength is the longest event text that the API server accepts.
	maxNoteLength = 1024
	// maxMessageLength is how much of a message a condition keeps. The API server accepts 32 KiB and refuses the whole status for more, and
	// its own messages about refused objects have no bound.
	maxMessageLength = 4096
)

// Status writes the status of one kind, and sends events about it.
type Status[T client.Object] struct {
	client     client.Client
	recorder   events.EventRecorder
	throttle   *statusThrottle[T] // nil: everything is reported at once
	staleReads staleReadGuard
}

// NewStatus makes a Status whose events come from the named controller.
func NewStatus[T client.Object](operator *Operator, name string) *Status[T] {
	return &Status[T]{client: operator.GetClient(), recorder: operator.GetEventRecorder(name)}
}

// A Report is the one status write of a reconcile. Begin it before the status is changed.
type Report[T client.Object] struct {
	status     *Status[T]
	before     client.Object
	object     T
	conditions *[]metav1.Condition
	events     []pendingEvent
}

// A pendingEvent becomes an event once the status is written.
type pendingEvent struct {
	kind, reason, note string
	related            *corev1.ObjectReference // nil for none
}

// Report begins a report on the object, whose conditions the reconciler points to. Change the status on the object
// itself, its conditions through the report, then Write.
func (s *Status[T]) Report(object T, conditions *[]metav1.Condition) *Report[T] {
	return &Report[T]{status: s, before: object.DeepCopyObject().(client.Object), object: object, conditions: conditions}
}

// Condition sets a condition for the object's current generation. The time of the last transition changes only with its status.
func (r *Report[T]) Condition(condition metav1.Condition) {
	if condition.ObservedGeneration == 0 {
		condition.ObservedGeneration = r.object.GetGeneration()
	}
	condition.Message = truncate(condition.Message, maxMessageLength)
	meta.SetStatusCondition(r.conditions, condition)
}

// Normal sets a condition. When its status or reason changes, it sends an event with the same reason.
func (r *Report[T]) Normal(condition metav1.Condition) {
	r.setWithEvent(corev1.EventTypeNormal, condition)
}

// Warning is like Normal, for changes that need attention.
func (r *Report[T]) Warning(condition metav1.Condition) {
	r.setWithEvent(corev1.EventTypeWarning, condition)
}

func (r *Report[T]) setWithEvent(kind string, condition metav1.Condition) {
	current := meta.FindStatusCondition(*r.conditions, condition.Type)
	if current == nil || current.Status != condition.Status || current.Reason != condition.Reason {
		r.Event(kind, condition.Reason, condition.Message)
	}
	r.Condition(condition)
}

// Event sends an event about something that no condition shows, once the status is written or has not changed.
func (r *Report[T]) Event(kind, reason, note string) {
	r.events = append(r.events, pendingEvent{kind: kind, reason: reason, note: note})
}

// EventAbout is Event with a related object. Events that differ only in their note are counted as one, under the first note; events about
// different objects are not.
func (r *Report[T]) EventAbout(related *corev1.ObjectReference, kind, reason, note string) {
	r.events = append(r.events, pendingEvent{kind, reason, note, related})
}

// Write writes what has changed, if anything, and then sends the events. A conflict means that the object was stale: return the error, and
// the object is reconciled again.
func (r *Report[T]) Write(ctx context.Context) error {
	if err := r.status.staleReads.checkCurrent(r.before); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	if !equality.Semantic.DeepEqual(r.before, client.Object(r.object)) {
		patch, err := statusPatch(r.before, r.object)
		if err != nil {
			return fmt.Errorf("write status: %w", err)
		}
		err = r.status.client.Status().Patch(ctx, r.object, patch)
		if apierrors.IsNotFound(err) {
			return nil // the object is gone, so there is nothing to report
		}
		if err != nil {
			return fmt.Errorf("write status: %w", err)
		}
		r.status.throttle.recordWrite(r.object.GetUID())
		r.status.staleReads.recordWrite(r.object)
	}
	for _, event := range r.events {
		r.status.recordEvent(r.object, event)
	}
	r.events = nil
	return nil
}

// recordEvent refers to the object without its resource version, so that repeated events are counted in a series.
func (s *Status[T]) recordEvent(object T, event pendingEvent) {
	regarding, err := objectReference(object, s.client.Scheme())
	if err != nil {
		return // a kind that is not in the scheme could not have been reconciled
	}
	var related runtime.Object
	if event.related != nil {
		related = event.related
	}
	s.recorder.Eventf(regarding, related, event.kind, event.reason, "Reconcile", "%s", truncate(event.note, maxNoteLength))
}

func objectReference(object client.Object, scheme *runtime.Scheme) (*corev1.ObjectReference, error) {
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return nil, err
	}
	return &corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}, nil
}

func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..."
}
