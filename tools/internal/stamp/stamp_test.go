package stamp

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is a working tree with one commit, in which bin/ is ignored.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	run(t, root, "init", "--quiet")
	writeFile(t, root, ".gitignore", "/bin/\n")
	writeFile(t, root, "code.go", "package code\n")
	commit(t, root)
	return root
}

func run(t *testing.T, root string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", arguments...)
	command.Dir = root
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", arguments, err, out)
	}
	return strings.TrimSpace(string(out))
}

func commit(t *testing.T, root string) {
	t.Helper()
	run(t, root, "add", "--all")
	run(t, root, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message", "change")
}

func writeFile(t *testing.T, root, name, content string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func current(t *testing.T, root string) string {
	t.Helper()
	stamp, err := DescribeTree(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return stamp
}

func TestACleanTreeIsItsCommit(t *testing.T) {
	root := repository(t)
	writeFile(t, root, "bin/ignored", "x")
	if got, want := current(t, root), run(t, root, "rev-parse", "HEAD"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEveryStateOfTheTreeHasItsOwnStamp(t *testing.T) {
	root := repository(t)
	dirty := regexp.MustCompile(`^[0-9a-f]{40} dirty:[0-9a-f]{16}$`)
	states := map[string]string{current(t, root): "clean"}
	for _, change := range []struct{ what, name, content string }{
		{"edited", "code.go", "package code // edited\n"},
		{"edited otherwise", "code.go", "package code // edited otherwise\n"},
		{"a new file", "new_test.go", "package code\n"},
		{"a new file, edited", "new_test.go", "package code // edited\n"},
	} {
		writeFile(t, root, change.name, change.content)
		got := current(t, root)
		if before, known := states[got]; known || !dirty.MatchString(got) {
			t.Errorf("%s: got %q, also the stamp when %q", change.what, got, before)
		}
		states[got] = change.what
	}
	if got := current(t, filepath.Join(root, ".git", "..")); states[got] == "" {
		t.Errorf("the same tree by another path has the stamp %q", got)
	}
}

func TestWriteRemovesResultsOfAnotherCommit(t *testing.T) {
	root := repository(t)
	results := filepath.Join(root, "bin", "results")
	if _, err := Read(results); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder without a stamp gives %v", err)
	}
	writeFile(t, root, "bin/results/unit-unstamped.json", "{}")
	write := func() {
		t.Helper()
		if err := Write(t.Context(), results); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(results); err != nil || got.Source != current(t, root) {
			t.Errorf("read %q, %v", got, err)
		}
	}
	remaining := func() int {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(results, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	if write(); remaining() != 0 {
		t.Error("results without a stamp were kept")
	}
	writeFile(t, root, "bin/results/unit-root.json", "{}")
	writeFile(t, root, "bin/results/failures/log.txt", "why")
	if write(); remaining() != 1 {
		t.Error("results of the same commit were removed")
	}
	writeFile(t, root, "code.go", "package code // changed\n")
	if write(); remaining() != 0 {
		t.Error("results of another state of the source were kept")
	}
	if _, err := os.Stat(filepath.Join(results, "failures", "log.txt")); err != nil {
		t.Error("what explains failures was removed:", err)
	}
}

func TestPlannedReportsStayPlannedOnTheSameSource(t *testing.T) {
	root := repository(t)
	results := filepath.Join(root, "bin", "results")
	expect := func(planned, missing []string) {
		t.Helper()
		got, err := Read(results)
		if err != nil || !slices.Equal(got.PlannedReports, planned) {
			t.Fatalf("planned %q, %v, want %q", got.PlannedReports, err, planned)
		}
		if left, err := got.MissingReports(results); err != nil || !slices.Equal(left, missing) {
			t.Errorf("missing %q, %v, want %q", left, err, missing)
		}
	}
	write := func(planned ...string) {
		t.Helper()
		if err := Write(t.Context(), results, planned...); err != nil {
			t.Fatal(err)
		}
	}
	write("unit-tools.json", "unit-root.json")
	writeFile(t, root, "bin/results/unit-root.json", "{}")
	expect([]string{"unit-root.json", "unit-tools.json"}, []string{"unit-tools.json"})
	write("unit-root.json", "e2e-pool.json")
	expect([]string{"e2e-pool.json", "unit-root.json", "unit-tools.json"}, []string{"e2e-pool.json", "unit-tools.json"})
	writeFile(t, root, "code.go", "package code // changed\n")
	write("unit-root.json")
	expect([]string{"unit-root.json"}, []string{"unit-root.json"})
}

func TestOutsideOfARepositoryIsAnError(t *testing.T) {
	if err := Write(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a git repository") {
		t.Errorf("got %v", err)
	}
}
