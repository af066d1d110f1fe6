package kit

import (
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Changes passes the updates that concern a controller: a changed spec, changed labels or annotations, a deletion, or a wiped status. Other
// status changes are the controller's own writes and do not pass. A status counts as wiped when all of it is gone, or all of its
// conditions: some kinds have a field that the API server does not remove.
func Changes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, after := update.ObjectOld, update.ObjectNew
		return before == nil || after == nil ||
			specChanged(before, after) ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
			!reflect.DeepEqual(before.GetLabels(), after.GetLabels()) ||
			!reflect.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) ||
			hasStatus(before) && !hasStatus(after) ||
			hasConditions(before) && !hasConditions(after)
	}}
}

// specChanged compares generations. Kinds without a generation (ConfigMap, Secret) have no status either, so the whole object counts as
// spec.
func specChanged(before, after client.Object) bool {
	if after.GetGeneration() == 0 {
		return before.GetResourceVersion() != after.GetResourceVersion()
	}
	return before.GetGeneration() != after.GetGeneration()
}

func hasStatus(object client.Object) bool {
	status := statusOf(object)
	return status.IsValid() && !status.IsZero()
}

func hasConditions(object client.Object) bool {
	status := statusOf(object)
	if status.Kind() != reflect.Struct {
		return false
	}
	conditions := status.FieldByName("Conditions")
	return conditions.Kind() == reflect.Slice && conditions.Len() > 0
}

// statusOf returns the zero Value for kinds without a status.
func statusOf(object client.Object) reflect.Value {
	value := reflect.Indirect(reflect.ValueOf(object))
	if value.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return value.FieldByName("Status")
}
