// Package manifests reads the manifests of examples.
package manifests

import (
	"bytes"
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// Decode returns the object of a kind in a file. It fails the test when there is none, or when it has unknown fields.
func Decode[T any](t *testing.T, file, kind string) (object T) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text := range bytes.SplitSeq(content, []byte("\n---\n")) {
		if bytes.Contains(text, []byte("\nkind: "+kind+"\n")) {
			if err := yaml.UnmarshalStrict(text, &object); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			return object
		}
	}
	t.Fatalf("no %s in %s", kind, file)
	return object
}
