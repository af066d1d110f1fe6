package arch

import (
	"os"
	"path/filepath"
	"testing"
)

// The repository itself.
func TestRepositoryHasNoViolations(t *testing.T) {
	breaches, err := Check(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range breaches {
		t.Error(breach)
	}
}

// Guard against a check that reads no files.
func TestTheRepositoryIsRead(t *testing.T) {
	read, err := readTree(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, found := read.modules["go.mod"]; !found {
		t.Error("the root go.mod was not read")
	}
	folders := map[string]bool{}
	for _, f := range read.files {
		folders[f.folder] = true
	}
	for _, folder := range []string{"api/v1alpha1", "internal/testkit/arch", "devcluster/pause", "tools/image"} {
		if !folders[folder] {
			t.Errorf("no file of %s was read", folder)
		}
	}
}

func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return folder
}
