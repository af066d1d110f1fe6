package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Files are generated in a copy: tests of other packages read those of the working tree.
func TestS33_CleanDiff(t *testing.T) {
	root := t.TempDir()
	for file := range strings.SplitSeq(output(t, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"), "\x00") {
		if content, err := os.ReadFile(filepath.Join("../..", file)); err == nil { // not there is what was deleted
			write(t, filepath.Join(root, file), string(content))
		}
	}
	generate := exec.CommandContext(t.Context(), "make", "generate")
	generate.Dir, generate.Env = root, withoutMake()
	if text, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("make generate: %v\n%s", err, text)
	}
	for _, folder := range []string{"api", "deploy", "examples"} {
		compare := exec.CommandContext(t.Context(), "diff", "-r", filepath.Join("../..", folder), filepath.Join(root, folder))
		if text, err := compare.CombinedOutput(); err != nil {
			t.Errorf("make generate changes %s: %v\n%s", folder, err, text)
		}
	}
}
