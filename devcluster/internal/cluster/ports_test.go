package cluster

import (
	"io/fs"
	"strings"
	"testing"
)

// The operator that is run from source listens on all addresses of the machine, the bridge's among them.
func TestNothingTakesThePortsOfAnOperator(t *testing.T) {
	names, err := fs.Glob(files, "files/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("found %v, %v", names, err)
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range []string{":8080", ":8081", ":8082", ":9443", ":9444"} {
			if strings.Contains(string(text), port) {
				t.Errorf("%s takes port %s", name, port)
			}
		}
	}
}
