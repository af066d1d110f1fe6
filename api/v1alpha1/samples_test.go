package v1alpha1

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// TestSamplesRoundTrip proves that the Go types know every field of the samples under its right name.
func TestSamplesRoundTrip(t *testing.T) {
	files, err := filepath.Glob("../../deploy/samples/*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("want five samples, got %v, %v", files, err)
	}
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, scheme, text)
		})
	}
}

func roundTrip(t *testing.T, scheme *runtime.Scheme, text []byte) {
	t.Helper()
	var loose map[string]any
	if err := yaml.Unmarshal(text, &loose); err != nil {
		t.Fatal(err)
	}
	typed, err := scheme.New(schema.FromAPIVersionAndKind(loose["apiVersion"].(string), loose["kind"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, typed); err != nil {
		t.Fatalf("strict: %v", err)
	}
	again := fields(t, typed.DeepCopyObject())
	dropEmptyFields(again, loose)
	if !reflect.DeepEqual(again, loose) {
		t.Errorf("the sample lost something:\n%v\n%v", loose, again)
	}
}

func fields(t *testing.T, object runtime.Object) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var found map[string]any
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// dropEmptyFields drops zeros that the Go types write out and the sample leaves to the API server.
func dropEmptyFields(second, sample any) {
	switch sample := sample.(type) {
	case map[string]any:
		dropEmptyStructFields(second.(map[string]any), sample)
	case []any:
		for i := range sample {
			dropEmptyFields(second.([]any)[i], sample[i])
		}
	}
}

func dropEmptyStructFields(again, sample map[string]any) {
	for name, value := range again {
		if _, ok := sample[name]; !ok && (value == nil || reflect.ValueOf(value).IsZero() || isEmpty(value)) {
			delete(again, name)
		}
	}
	for name, value := range sample {
		dropEmptyFields(again[name], value)
	}
}

func isEmpty(value any) bool {
	object, ok := value.(map[string]any)
	return ok && len(object) == 0
}
