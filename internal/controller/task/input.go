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
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/internal/swarm/payload"
)

const (
	// maxPayload limits a payload in the Task itself, maxConfigMapPayload one in a ConfigMap: a frame of the link has 1 MiB.
	maxPayload, maxConfigMapPayload = 8 << 10, 512 << 10
	// maxObjectChecks limits the keys of ConfigMaps whose check is remembered.
	maxObjectChecks = 4096
)

// errPayloadGone is the error for a task that was deleted, but is still in the cache.
var errPayloadGone = errors.New("the task is gone, and its payload with it")

// A taskPayload is what the code of a task reads.
type taskPayload struct {
	inline        []byte
	byReference   bool           // it is read, or copied, when it is sent
	configMapText string         // from a ConfigMap
	missing       *dispatch.Wait // it may still be created
	failure       *permanentFailure
}

// readPayload returns what the code reads. A task without a payload gets an empty object, so that the input is always JSON.
func (r *reconciler) readPayload(ctx context.Context, task *v1alpha1.Task) (taskPayload, error) {
	if source := task.Spec.PayloadFrom; source != nil {
		return r.readConfigMap(ctx, task, source.ConfigMapKeyRef)
	}
	size, whole := payload.Size(task)
	switch {
	case size > maxPayload:
		message := fmt.Sprintf("payload has %d bytes, the limit is %d: put it into a ConfigMap and name that in payloadFrom", size, maxPayload)
		return taskPayload{failure: &permanentFailure{v1alpha1.ReasonPayloadTooLarge, message}}, nil
	case !whole:
		return taskPayload{byReference: true}, nil
	case task.Spec.Payload == nil:
		return taskPayload{inline: []byte("{}")}, nil
	}
	return taskPayload{inline: task.Spec.Payload.Raw}, nil
}

// readConfigMap returns the payload from a ConfigMap. A missing one may still be created.
func (r *reconciler) readConfigMap(ctx context.Context, task *v1alpha1.Task, ref v1alpha1.ConfigMapKey) (taskPayload, error) {
	config := &corev1.ConfigMap{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: ref.Name}, config)
	if client.IgnoreNotFound(err) != nil {
		return taskPayload{}, fmt.Errorf("read payload from ConfigMap %q: %w", ref.Name, err)
	}
	result := taskPayload{byReference: true}
	text, exists := config.Data[ref.Key]
	switch {
	case err != nil || !exists:
		message := fmt.Sprintf("there is no key %q in a ConfigMap %q: create it", ref.Key, ref.Name)
		result.missing = &dispatch.Wait{Reason: v1alpha1.ReasonPayloadNotFound, Message: message}
	case len(text) > maxConfigMapPayload:
		message := fmt.Sprintf("key %q of ConfigMap %q has %d bytes, the limit is %d", ref.Key, ref.Name, len(text), maxConfigMapPayload)
		result.failure = &permanentFailure{v1alpha1.ReasonPayloadTooLarge, message}
	case !r.objectChecks.isObject(config, ref.Key):
		result.failure = &permanentFailure{v1alpha1.ReasonBadInput, fmt.Sprintf("key %q of ConfigMap %q is not a JSON object", ref.Key, ref.Name)}
	}
	result.configMapText = strings.TrimSpace(text)
	return result, nil
}

// payloadToSend returns the payload for an assignment that Settle is about to send, nil if there is none. Payloads that the cache does
// not keep are in the response to the write of the assignment. If another write stored it, they are read past the cache.
func (r *reconciler) payloadToSend(ctx context.Context, task *v1alpha1.Task, snapshot snapshot) ([]byte, error) {
	switch assignment := snapshot.view.Assignment; {
	case assignment == nil || !assignment.Unsent || !isAssigned(&task.Status, assignment.Epoch):
		return nil, nil
	case !snapshot.payload.byReference:
		return snapshot.payload.inline, nil
	case task.Spec.PayloadFrom != nil:
		return []byte(snapshot.payload.configMapText), nil
	}
	if _, whole := payload.Size(task); whole {
		return task.Spec.Payload.Raw, nil
	}
	stored := &v1alpha1.Task{}
	err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(task), stored)
	switch {
	case apierrors.IsNotFound(err) || err == nil && stored.UID != task.UID:
		return nil, errPayloadGone
	case err != nil:
		return nil, fmt.Errorf("read payload of task %q past the cache: %w", task.Name, err)
	}
	return stored.Spec.Payload.Raw, nil
}

// A configMapText is a key of a ConfigMap in a given version.
type configMapText struct {
	uid          types.UID
	version, key string
}

// objectCheckCache caches which keys of ConfigMaps hold a JSON object. Many tasks may use the same half megabyte, and each is reconciled
// often.
type objectCheckCache struct {
	onParse func() // is called before a text is parsed; may be nil

	lock  sync.Mutex
	valid map[configMapText]bool
}

// isObject reports whether a key holds a JSON object.
func (v *objectCheckCache) isObject(config *corev1.ConfigMap, key string) bool {
	text := configMapText{config.UID, config.ResourceVersion, key}
	if valid, known := v.get(text); known {
		return valid
	}
	if v.onParse != nil {
		v.onParse()
	}
	var object map[string]json.RawMessage
	valid := json.Unmarshal([]byte(config.Data[key]), &object) == nil
	v.put(text, valid)
	return valid
}

func (v *objectCheckCache) get(key configMapText) (valid, known bool) {
	v.lock.Lock()
	defer v.lock.Unlock()
	valid, known = v.valid[key]
	return valid, known
}

func (v *objectCheckCache) put(key configMapText, valid bool) {
	if key.uid == "" || key.version == "" {
		return // not from an API server
	}
	v.lock.Lock()
	defer v.lock.Unlock()
	if v.valid == nil || len(v.valid) >= maxObjectChecks {
		v.valid = make(map[configMapText]bool)
	}
	v.valid[key] = valid
}
