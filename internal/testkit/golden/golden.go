// Package golden compares what tests produce with files in testdata. `go test -update` writes the files instead, and `git diff` then
// shows what changed. The flag exists only in tests that import this package.
package golden

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Compare fails the test when got differs from the content of a file. With -update it first writes got to the file.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs from the result below: if that is meant, run go test -update and read the diff\n%s", file, got)
	}
}
