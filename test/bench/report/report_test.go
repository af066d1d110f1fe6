package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// repository creates a commit with one package, engine, and changes to its folder.
func repository(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	writeFile(t, "engine/engine.go", "package engine\n")
	for _, arguments := range [][]string{
		{"init", "--quiet"}, {"add", "--all"},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message", "engine"},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", arguments, err, out)
		}
	}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, suite string) *Report {
	t.Helper()
	report, err := New(t.Context(), suite, "engine")
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func readRuns(t *testing.T, file string) []run {
	t.Helper()
	all, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	return all.Runs
}

func TestASuiteReplacesItsOwnRun(t *testing.T) {
	repository(t)
	file := filepath.Join("bench", "results.json")
	for _, run := range []struct{ suite, measure string }{{"one", "old"}, {"two", "other"}, {"one", "new"}} {
		report := begin(t, run.suite)
		report.Time(run.measure, 1, 2, "ms")
		if err := report.Close(file); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, run := range readRuns(t, file) {
		for _, line := range run.Lines {
			got = append(got, run.Suite+": "+line.Measure)
		}
	}
	if !slices.Equal(got, []string{"two: other", "one: new"}) {
		t.Errorf("got %q", got)
	}
}

// storedRun is the run of a suite of one line, as it is in the file.
func storedRun(t *testing.T) run {
	t.Helper()
	report := begin(t, "suite")
	report.Time("of something", 1, 2, "ms")
	if err := report.Close("results.json"); err != nil {
		t.Fatal(err)
	}
	return readRuns(t, "results.json")[0]
}

func TestRunHasItsSource(t *testing.T) {
	repository(t)
	run := storedRun(t)
	commit, _ := git(t.Context(), "rev-parse", "HEAD")
	tree, _ := git(t.Context(), "rev-parse", "HEAD:engine")
	if run.Commit != commit || run.Packages["engine"] != tree || len(tree) != 40 {
		t.Errorf("got commit %q, packages %q", run.Commit, run.Packages)
	}
	if when, err := time.Parse(time.RFC3339, run.Date); err != nil || time.Since(when) > time.Hour {
		t.Errorf("got date %q, %v", run.Date, err)
	}
	if on := run.Machine; on == nil || on.OS == "" || on.Arch == "" || on.CPUs < 1 || on.Memory < 1<<20 {
		t.Errorf("got machine %+v", on)
	}
}

func TestADigestShowsEdits(t *testing.T) {
	repository(t)
	run := storedRun(t)
	if want, err := digest(run); err != nil || run.Digest != want || !strings.HasPrefix(want, "sha256:") {
		t.Errorf("got digest %q, want %q, %v", run.Digest, want, err)
	}
	run.Lines[0].Ours = .5
	if edited, err := digest(run); err != nil || edited == run.Digest {
		t.Errorf("an edited run has the same digest %q, %v", edited, err)
	}
}

func TestUncommittedChangesAreReported(t *testing.T) {
	repository(t)
	writeFile(t, "engine/engine.go", "package engine // changed\n")
	if got := begin(t, "suite").run.Packages["engine"]; got != uncommitted {
		t.Errorf("got tree %q", got)
	}
}

func TestSuiteMustNameItsPackages(t *testing.T) {
	repository(t)
	for reason, packages := range map[string][]string{"name the packages": nil, "HEAD:engin": {"engin"}} {
		if _, err := New(t.Context(), "suite", packages...); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%v: got %v, want %q", packages, err, reason)
		}
	}
}

func TestOnlyCountsFail(t *testing.T) {
	repository(t)
	for _, c := range []struct {
		reason string
		line   Line
		met    bool
		fails  bool
	}{
		{"a count at its target", Line{Ours: 1, Target: 1, Counted: true}, true, false},
		{"a count above it", Line{Ours: 2, Target: 1, Counted: true}, false, true},
		{"a time above it", Line{Ours: 2, Target: 1}, false, false},
		{"a ratio below what is wanted", Line{Ours: 7, Target: 8, AtLeast: true, Counted: true}, false, true},
		{"a ratio above it", Line{Ours: 9, Target: 8, AtLeast: true, Counted: true, Peer: &Peer{Name: "peer", Value: 1}}, true, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "results.json")
			report := begin(t, "suite")
			report.Add(c.line)
			if err := report.Close(file); (err != nil) != c.fails {
				t.Errorf("got %v", err)
			}
			if runs := readRuns(t, file); len(runs) != 1 || runs[0].Lines[0].Met != c.met {
				t.Errorf("wrote %+v", runs)
			}
		})
	}
}

func TestAnUnreadableFileIsNotReplaced(t *testing.T) {
	repository(t)
	writeFile(t, "results.json", "[{}]")
	if err := begin(t, "suite").Close("results.json"); err == nil {
		t.Error("it was replaced")
	}
}

func TestSourceIncludesImportedPackages(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "go.mod", "module example.com/fleet\n\ngo 1.26\n")
	writeFile(t, "engine/engine.go", "package engine\n\nimport _ \"example.com/fleet/parts/wheel\"\n")
	writeFile(t, "parts/wheel/wheel.go", "package wheel\n\nimport _ \"fmt\"\n")
	writeFile(t, "radio/radio.go", "package radio\n")
	if got, err := Dependencies(t.Context(), "engine"); err != nil ||
		!slices.Equal(slices.Sorted(slices.Values(got)), []string{"engine", "parts/wheel"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Dependencies(t.Context(), "engin"); err == nil || !strings.Contains(err.Error(), "engin") {
		t.Errorf("a package that does not exist: %v", err)
	}
}
