package kit

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func withStatus(t *testing.T, status string) *unstructured.Unstructured {
	t.Helper()
	text := `{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "resourceVersion": "7"}, "status": ` + status + `}`
	made := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &made.Object); err != nil {
		t.Fatal(err)
	}
	return made
}

// A merge patch is cheaper, and loses every null.
func TestStatusThatHoldsNullIsReplaced(t *testing.T) {
	const merge, replace = types.MergePatchType, types.JSONPatchType
	replaced := func(status string) string {
		return `[{"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}, {"op": "add", "path": "/status", "value": ` + status + `}]`
	}
	for reason, c := range map[string]struct {
		before, after string
		kind          types.PatchType
		want          string
	}{
		"a value is added":   {`{"a": 1}`, `{"a": 1, "b": "null"}`, merge, `{"metadata": {"resourceVersion": "7"}, "status": {"b": "null"}}`},
		"a value is removed": {`{"a": 1, "b": 2}`, `{"a": 1}`, merge, `{"metadata": {"resourceVersion": "7"}, "status": {"b": null}}`},
		"a value holds null": {`{"a": 1}`, `{"a": 1, "b": {"c": null}}`, replace, replaced(`{"a": 1, "b": {"c": null}}`)},
		"an item is null":    {`{}`, `{"b": [null]}`, replace, replaced(`{"b": [null]}`)},
		"null was there already": {`{"b": {"c": null}}`, `{"a": 1, "b": {"c": null}}`, merge,
			`{"metadata": {"resourceVersion": "7"}, "status": {"a": 1}}`},
	} {
		t.Run(reason, func(t *testing.T) {
			after := withStatus(t, c.after)
			patch, err := statusPatch(withStatus(t, c.before), after)
			if err != nil {
				t.Fatal(err)
			}
			data, err := patch.Data(after)
			var got, want any
			if err != nil || json.Unmarshal(data, &got) != nil || json.Unmarshal([]byte(c.want), &want) != nil {
				t.Fatalf("patch %s: %v", data, err)
			}
			if patch.Type() != c.kind || !reflect.DeepEqual(got, want) {
				t.Errorf("got %s %s", patch.Type(), data)
			}
		})
	}
}
