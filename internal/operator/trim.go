package operator

import (
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// trimmedOutlineBytes is roughly what is kept of each object of a namespace that has used up limits.cacheBytesPerNamespace. Smaller objects
// are kept whole.
const trimmedOutlineBytes = 4 << 10

// maxNameBytes is how much is kept of each string: all of a name.
const maxNameBytes = 256

// trim reduces an object to about trimmedOutlineBytes. It keeps what identifies the object, what indexes need, and what is read of it in
// lists. The mark makes clients read objects of our kinds, and what they control, from the API server: see package ondemand.
func trim(object client.Object, labels, annotations []string) {
	kept := pick(object.GetAnnotations(), annotations...)
	shortenValues(kept, trimmedOutlineBytes/2, maxTrimmedValueBytes)
	object.SetAnnotations(kept)
	switch object := object.(type) {
	case *appsv1.StatefulSet:
		boundStatefulSet(object, labels, trimmedOutlineBytes)
		if controlledBy(object, "Swarm") {
			object.Spec = appsv1.StatefulSetSpec{Replicas: object.Spec.Replicas, Ordinals: object.Spec.Ordinals}
			markTooLarge(object)
		}
	case *appsv1.ControllerRevision:
		boundMetadata(&object.ObjectMeta, labels)
		object.Data = runtime.RawExtension{}
		markTooLarge(object)
	case *v1alpha1.Swarm, *v1alpha1.Agent, *v1alpha1.Task, *v1alpha1.WorkerPool, *v1alpha1.SwarmSnapshot:
		trimOurs(object, labels)
	default:
		bound(object, labels, trimmedOutlineBytes)
	}
}

// trimOurs keeps the numbers and short strings of spec and status, and drops lists and maps.
func trimOurs(object client.Object, labels []string) {
	finalizers := object.GetFinalizers()
	switch object := object.(type) {
	case *v1alpha1.Swarm:
		boundMetadata(&object.ObjectMeta, labels)
		clearLists(&object.Spec, &object.Status)
	case *v1alpha1.Agent:
		boundMetadata(&object.ObjectMeta, labels)
		clearLists(&object.Spec, &object.Status)
	case *v1alpha1.Task:
		boundMetadata(&object.ObjectMeta, labels)
		payload, agents := object.Spec.Payload, object.Status.AssignedAgents
		object.Spec.Payload = nil
		clearLists(&object.Spec, &object.Status)
		object.Spec.Payload = payload // at most payload.MaxKept bytes
		if len(agents) > 0 {          // a new leader must not assign the task to another agent
			clearLists(&agents[0])
			object.Status.AssignedAgents = slices.Clone(agents[:1])
		}
	case *v1alpha1.WorkerPool:
		boundMetadata(&object.ObjectMeta, labels)
		clearLists(&object.Spec, &object.Status)
	case *v1alpha1.SwarmSnapshot:
		boundMetadata(&object.ObjectMeta, labels)
		clearLists(&object.Spec, &object.Status)
	}
	if len(finalizers) > 0 { // a finished Task is kept while it has one
		object.SetFinalizers(slices.Clone(finalizers[:1]))
	}
	markTooLarge(object)
}

// clearLists drops lists and maps from structs, and shortens their strings.
func clearLists(structs ...any) {
	for _, s := range structs {
		clearListsOf(reflect.ValueOf(s).Elem())
	}
}

func clearListsOf(value reflect.Value) {
	switch value.Kind() {
	case reflect.String:
		value.SetString(shortenTo(value.String(), maxNameBytes))
	case reflect.Slice, reflect.Map, reflect.Interface:
		value.SetZero()
	case reflect.Pointer:
		if !value.IsNil() {
			clearListsOf(value.Elem())
		}
	case reflect.Struct:
		for _, field := range value.Fields() {
			if field.CanSet() {
				clearListsOf(field)
			}
		}
	}
}

// sizeOf returns the size of an object in bytes: its encoded size if known, and its size in memory for our own kinds.
func sizeOf(object client.Object) int64 {
	if sized, ok := object.(interface{ Size() int }); ok {
		return int64(sized.Size())
	}
	return int64(memorySize(reflect.ValueOf(object)))
}

var timeType = reflect.TypeFor[time.Time]()

// memorySize is the size of what a value refers to, without the value itself.
func memorySize(value reflect.Value) (bytes int) {
	switch value.Kind() {
	case reflect.String:
		return value.Len()
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return 0
		}
		return int(value.Elem().Type().Size()) + memorySize(value.Elem())
	case reflect.Slice:
		bytes = value.Cap() * int(value.Type().Elem().Size())
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return bytes
		}
		for n := range value.Len() {
			bytes += memorySize(value.Index(n))
		}
	case reflect.Map:
		for entry := value.MapRange(); entry.Next(); {
			bytes += int(value.Type().Key().Size()+value.Type().Elem().Size()) + memorySize(entry.Key()) + memorySize(entry.Value())
		}
	case reflect.Struct:
		if value.Type() == timeType { // its location is shared
			return 0
		}
		for _, field := range value.Fields() {
			bytes += memorySize(field)
		}
	}
	return bytes
}
