// Package payload bounds what the operator keeps in memory of the payloads of Tasks. The cache holds every Task that is stored, also those
// that wait and those that are finished, and a payload may have 8 KiB.
//
// A payload that is not kept is replaced by its size, a JSON number. The schema of Tasks allows objects only, so no stored payload is one.
package payload

import (
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// MaxKept is the size of the largest payload that is kept.
const MaxKept = 512

// Drop replaces the payload of a Task by its size, if it is too large to be kept or nothing reads it any more.
func Drop(task *v1alpha1.Task) {
	size, whole := Size(task)
	if !whole || size == 0 || size <= MaxKept && !task.Status.Phase.Final() {
		return
	}
	if number := strconv.AppendInt(nil, int64(size), 10); len(number) < size {
		task.Spec.Payload = &apiextensionsv1.JSON{Raw: number}
	}
}

// Size returns how many bytes the payload of a Task has, and whether the Task holds it.
func Size(task *v1alpha1.Task) (size int, whole bool) {
	if task.Spec.Payload == nil {
		return 0, true
	}
	raw := task.Spec.Payload.Raw
	if len(raw) == 0 || raw[0] < '0' || raw[0] > '9' {
		return len(raw), true
	}
	size, err := strconv.Atoi(string(raw))
	if err != nil {
		return len(raw), true
	}
	return size, false
}
