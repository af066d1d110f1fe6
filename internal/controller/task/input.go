package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/internal/payload"
)

const (
	// mostPayload limits a payload in the Task itself, mostReferred one in a ConfigMap: a frame of the link has 1 MiB.
	mostPayload, mostReferred = 8 << 10, 512 << 10
	// mostVerdicts limits the keys of ConfigMaps whose check is remembered.
	mostVerdicts = 4096
)

// errPayloadGone is the error for a task that was deleted, but is still in the cache.
var errPayloadGone = errors.New("the task is gone, and its payload with it")

// An input is what the code of a task reads.
type input struct {
	inline   []byte
	referred bool           // it is read, or copied, when it is sent
	text     string         // from a ConfigMap
	missing  *dispatch.Wait // it may still be created
	fault    *fault
}

// readInput returns what the code reads. A task without a payload gets an empty object, so that the input is always JSON.
func (r *reconciler) readInput(ctx context.Context, task *v1alpha1.Task) (input, error) {
	if source := task.Spec.PayloadFrom; source != nil {
		return r.referred(ctx, task, source.ConfigMapKeyRef)
	}
	size, whole := payload.Size(task)
	switch {
	case size > mostPayload:
		message := fmt.Sprintf("payload has %d bytes, the limit is %d: put it into a ConfigMap and name that in payloadFrom", size, mostPayload)
		return input{fault: &fault{v1alpha1.ReasonPayloadTooLarge, message}}, nil
	case !whole:
		return input{referred: true}, nil
	case task.Spec.Payload == nil:
		return input{inline: []byte("{}")}, nil
	}
	return input{inline: task.Spec.Payload.Raw}, nil
}

// referred returns the payload from a ConfigMap. A missing one may still be created.
func (r *reconciler) referred(ctx context.Context, task *v1alpha1.Task, from v1alpha1.ConfigMapKey) (input, error) {
	config := &corev1.ConfigMap{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: from.Name}, config)
	if client.IgnoreNotFound(err) != nil {
		return input{}, fmt.Errorf("read payload from ConfigMap %q: %w", from.Name, err)
	}
	found := input{referred: true}
	text, exists := config.Data[from.Key]
	switch {
	case err != nil || !exists:
		message := fmt.Sprintf("there is no key %q in a ConfigMap %q: create it", from.Key, from.Name)
		found.missing = &dispatch.Wait{Reason: v1alpha1.ReasonPayloadNotFound, Message: message}
	case len(text) > mostReferred:
		message := fmt.Sprintf("key %q of ConfigMap %q has %d bytes, the limit is %d", from.Key, from.Name, len(text), mostReferred)
		found.fault = &fault{v1alpha1.ReasonPayloadTooLarge, message}
	case !r.verdicts.isObject(config, from.Key):
		found.fault = &fault{v1alpha1.ReasonBadInput, fmt.Sprintf("key %q of ConfigMap %q is not a JSON object", from.Key, from.Name)}
	}
	found.text = strings.TrimSpace(text)
	return found, nil
}

// payloadToSend returns the payload for an assignment that Settle is about to send, nil if there is none. Payloads that the cache does
// not keep are in the response to the write of the assignment. If another write stored it, they are read past the cache.
func (r *reconciler) payloadToSend(ctx context.Context, task *v1alpha1.Task, found world) ([]byte, error) {
	switch held := found.view.Assignment; {
	case held == nil || !held.Unsent || !isAssigned(&task.Status, held.Epoch):
		return nil, nil
	case !found.input.referred:
		return found.input.inline, nil
	case task.Spec.PayloadFrom != nil:
		return []byte(found.input.text), nil
	}
	if _, whole := payload.Size(task); whole {
		return task.Spec.Payload.Raw, nil
	}
	stored := &v1alpha1.Task{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(task), stored)
	switch {
	case apierrors.IsNotFound(err) || err == nil && stored.UID != task.UID:
		return nil, errPayloadGone
	case err != nil:
		return nil, fmt.Errorf("read payload of task %q past the cache: %w", task.Name, err)
	}
	return stored.Spec.Payload.Raw, nil
}

// A text is a key of a ConfigMap in a given version.
type text struct {
	uid          types.UID
	version, key string
}

// verdicts caches which keys of ConfigMaps hold a JSON object. Many tasks may use the same half megabyte, and each is reconciled often.
type verdicts struct {
	parsed func() // is called before a text is parsed; may be nil

	lock sync.Mutex
	all  map[text]bool
}

// isObject reports whether a key holds a JSON object.
func (v *verdicts) isObject(config *corev1.ConfigMap, key string) bool {
	of := text{config.UID, config.ResourceVersion, key}
	if verdict, known := v.get(of); known {
		return verdict
	}
	if v.parsed != nil {
		v.parsed()
	}
	var object map[string]json.RawMessage
	verdict := json.Unmarshal([]byte(config.Data[key]), &object) == nil
	v.put(of, verdict)
	return verdict
}

func (v *verdicts) get(of text) (verdict, known bool) {
	v.lock.Lock()
	defer v.lock.Unlock()
	verdict, known = v.all[of]
	return verdict, known
}

func (v *verdicts) put(of text, verdict bool) {
	if of.uid == "" || of.version == "" {
		return // not from an API server
	}
	v.lock.Lock()
	defer v.lock.Unlock()
	if v.all == nil || len(v.all) >= mostVerdicts {
		v.all = make(map[text]bool)
	}
	v.all[of] = verdict
}
