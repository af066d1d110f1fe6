package kit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusPatch returns the difference between two versions of an object's status, and applies only to the first. It is a merge patch, the
// cheapest kind for the API server. In a merge patch null removes a field, so it cannot store a value such as {"a": null}: a status that
// holds nulls is replaced as a whole.
func statusPatch(before, after client.Object) (client.Patch, error) {
	merge := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	data, err := merge.Data(after)
	if err != nil {
		return nil, fmt.Errorf("compare status: %w", err)
	}
	if bytes.Contains(data, []byte("null")) {
		status, err := encodeStatus(after)
		if err != nil {
			return nil, err
		}
		if holdsNull(status) {
			return replaceStatus(before.GetResourceVersion(), status)
		}
	}
	return client.RawPatch(merge.Type(), data), nil
}

func encodeStatus(object client.Object) (json.RawMessage, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	fields := struct {
		Status json.RawMessage `json:"status"`
	}{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	return fields.Status, nil
}

// holdsNull reports whether a field somewhere in a JSON value is null.
func holdsNull(text json.RawMessage) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a number may be beyond a float64
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if token == nil {
			return true
		}
	}
}

// replaceStatus is a JSON patch. The resource version makes the API server refuse it when the object has changed.
func replaceStatus(version string, status json.RawMessage) (client.Patch, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	data, err := json.Marshal([]operation{
		{"replace", "/metadata/resourceVersion", version},
		{"add", "/status", status},
	})
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	return client.RawPatch(types.JSONPatchType, data), nil
}
