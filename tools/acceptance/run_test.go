package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/swarm-io/swarm-operator/tools/internal/stamp"
)

// tree is a repository with a list of two rows, results of its last commit that prove the first, and a measured run that proves the second.
type tree struct {
	*testing.T
	root string
}

// newTree is a copy: to make one takes a dozen calls of git.
func newTree(t *testing.T) tree {
	t.Helper()
	original.once.Do(func() { makeTree(t) })
	r := tree{t, filepath.Join(t.TempDir(), "tree")}
	if err := os.CopyFS(r.root, os.DirFS(original.folder)); err != nil {
		t.Fatal(err)
	}
	return r
}

var original struct {
	once   sync.Once
	folder string
}

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "acceptance-")
	if err != nil {
		panic(err)
	}
	original.folder = folder
	code := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func makeTree(t *testing.T) {
	t.Helper()
	r := tree{t, original.folder}
	r.writeFile(".gitignore", "/bin/\n")
	r.writeFile("engine/engine.go", "package engine\n")
	r.writeFile("docs/acceptance.md", "## S: Swarms\n| S01 | kinds | crd | crds@unit |\n| S02 | fast | soon | plan@bench |\n")
	r.git("init", "--quiet", "--template=")
	r.commit()
	r.measure(r.engineRun())
	r.commit()
	r.rerunTests()
}

func (r tree) writeFile(name, content string) {
	r.Helper()
	file := filepath.Join(r.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (r tree) git(arguments ...string) string {
	r.Helper()
	command := exec.CommandContext(r.Context(), "git", arguments...)
	command.Dir = r.root
	out, err := command.CombinedOutput()
	if err != nil {
		r.Fatalf("git %v: %v\n%s", arguments, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r tree) commit() {
	r.Helper()
	r.git("add", "--all")
	r.git("-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message", "change")
}

func (r tree) writeStamp() {
	r.Helper()
	if _, err := run(r.Context(), &bytes.Buffer{}, []string{"--root", r.root, "--stamp"}); err != nil {
		r.Fatal(err)
	}
}

// rerunTests is a new run of the tests.
func (r tree) rerunTests() {
	r.Helper()
	r.writeStamp()
	r.writeFile("bin/results/unit-root.json", `{"Action":"pass","Package":"p","Test":"TestS01_CRDs"}`)
}

// engineRun is a run that measured the committed engine.
func (r tree) engineRun() map[string]any {
	r.Helper()
	return map[string]any{
		"suite": "engine", "commit": r.git("rev-parse", "HEAD"), "date": "2026-01-02T03:04:05Z", "machine": map[string]any{"os": "linux"},
		"packages": map[string]any{"engine": r.git("rev-parse", "HEAD:engine")},
		"lines": []any{
			map[string]any{"measure": "[S02] plan", "ours": 1, "target": 2, "met": true},
			map[string]any{"measure": "of no row", "ours": 3, "target": 2, "met": false},
		},
	}
}

// measure writes a run with the digest that belongs to it.
func (r tree) measure(run map[string]any) {
	r.Helper()
	run = maps.Clone(run)
	text, err := json.Marshal(run)
	if err != nil {
		r.Fatal(err)
	}
	if run["digest"], err = digest(text); err != nil {
		r.Fatal(err)
	}
	if text, err = json.MarshalIndent(map[string]any{"runs": []any{run}}, "", "  "); err != nil {
		r.Fatal(err)
	}
	r.writeFile("test/bench/results.json", string(text))
}

func (r tree) run() (healthy bool, printed string, err error) {
	var out bytes.Buffer
	healthy, err = run(r.Context(), &out, []string{"--root", r.root})
	return healthy, out.String(), err
}

func TestEverythingIsProven(t *testing.T) {
	healthy, printed, err := newTree(t).run()
	if err != nil || !healthy {
		t.Fatalf("healthy %t, error %v", healthy, err)
	}
	if last := printed[strings.LastIndex(printed, "  all"):]; !slices.Equal(strings.Fields(last),
		[]string{"all", "2", "0", "0", "0", "2", "2/2"}) {
		t.Errorf("got\n%s", printed)
	}
}

func TestResultsMustBeOfThisCommit(t *testing.T) {
	for reason, c := range map[string]struct {
		change func(tree)
		want   string
	}{
		"no results": {func(r tree) { r.remove("bin/results") }, "there are no results"},
		"no stamp":   {func(r tree) { r.remove("bin/results/commit") }, "nothing says of which commit"},
		"no files":   {func(r tree) { r.remove("bin/results/unit-root.json") }, "no test names a clause"},
		"a planned report is missing": {func(r tree) {
			if err := stamp.Write(r.Context(), filepath.Join(r.root, "bin/results"), "unit-root.json", "e2e-pool.json"); err != nil {
				r.Fatal(err)
			}
		}, "are missing in "},
		"another commit": {func(r tree) {
			r.writeFile("engine/more.go", "package engine\n")
			r.commit()
		}, "the source is"},
		"an edited tree":   {func(r tree) { r.writeFile("engine/engine.go", "package engine // edited\n") }, " dirty:"},
		"a file not added": {func(r tree) { r.writeFile("engine/new_test.go", "package engine\n") }, " dirty:"},
		"an old edited tree": {func(r tree) {
			r.writeFile("engine/engine.go", "package engine // edited\n")
			r.rerunTests()
			r.git("checkout", "--quiet", ".")
		}, " dirty:"},
	} {
		t.Run(reason, func(t *testing.T) {
			r := newTree(t)
			c.change(r)
			_, _, err := r.run()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "run make check") {
				t.Errorf("got %v, want %q", err, c.want)
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
		})
	}
}

func (r tree) remove(name string) {
	r.Helper()
	if err := os.RemoveAll(filepath.Join(r.root, name)); err != nil {
		r.Fatal(err)
	}
}

func TestNumbersThatCannotBeTrustedAreAnError(t *testing.T) {
	edit := func(from, to string) func(tree) {
		return func(r tree) {
			file := filepath.Join(r.root, "test/bench/results.json")
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(text), from) {
				r.Fatalf("%v, or there is no %q in it", err, from)
			}
			r.writeFile("test/bench/results.json", strings.Replace(string(text), from, to, 1))
		}
	}
	for reason, c := range map[string]struct {
		change func(tree)
		want   string
	}{
		"a number was edited":  {edit(`"ours": 1`, `"ours": 0.5`), "was edited after it was measured"},
		"a commit was edited":  {edit(`"commit": "`, `"commit": "0`), "was edited after it was measured"},
		"a machine was added":  {edit(`"os": "linux"`, `"os": "linux", "cpus": 64`), "was edited after it was measured"},
		"no digest":            {edit(`"digest"`, `"digests"`), "was edited after it was measured"},
		"it is not JSON":       {edit(`{`, ``), "read what was measured"},
		"it has no runs":       {func(r tree) { r.writeFile("test/bench/results.json", "{}") }, "there are no runs"},
		"it is gone":           {func(r tree) { r.remove("test/bench/results.json") }, "no such file"},
		"met, which is untrue": {func(r tree) { r.forge() }, `"of no row": it says met true`},
	} {
		t.Run(reason, func(t *testing.T) {
			r := newTree(t)
			c.change(r)
			if _, _, err := readBench(t.Context(), r.root, filepath.Join(r.root, "test/bench/results.json")); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// forge writes a run that claims to have met a target which it missed, with a digest that fits.
func (r tree) forge() {
	r.Helper()
	run := r.engineRun()
	run["lines"].([]any)[1].(map[string]any)["met"] = true
	r.measure(run)
}

func TestStaleNumbersProveNothingAndAreNoFailure(t *testing.T) {
	unknown := func(key string) func(tree) {
		return func(r tree) {
			run := r.engineRun()
			delete(run, key)
			r.measure(run)
		}
	}
	for reason, c := range map[string]struct {
		change func(tree)
		want   string
	}{
		"the package changed": {func(r tree) { r.writeFile("engine/engine.go", "package engine\n\nconst limit = 2\n") }, "changed since: engine"},
		"the package is gone": {func(r tree) { r.remove("engine") }, "changed since: engine"},
		"no machine":          {unknown("machine"), "machine unknown"},
		"no commit":           {unknown("commit"), "commit unknown"},
		"no date":             {unknown("date"), "date unknown"},
		"no packages":         {unknown("packages"), "measured packages unknown"},
	} {
		t.Run(reason, func(t *testing.T) {
			r := newTree(t)
			c.change(r)
			r.commit()
			r.rerunTests()
			healthy, printed, err := r.run()
			if err != nil || !healthy {
				t.Fatalf("healthy %t, error %v", healthy, err)
			}
			if !strings.Contains(printed, c.want) || !strings.Contains(printed, "  S02  open ") || !strings.Contains(printed, "  S02  plan@bench") {
				t.Errorf("want %q, got\n%s", c.want, printed)
			}
		})
	}
}

func TestMeasuredCodeWithUncommittedChangesIsStale(t *testing.T) {
	r := newTree(t)
	r.writeFile("engine/engine.go", "package engine\n\nconst limit = 2\n")
	r.rerunTests()
	if healthy, printed, err := r.run(); err != nil || !healthy || !strings.Contains(printed, "changed since: engine") {
		t.Errorf("healthy %t, error %v, printed\n%s", healthy, err, printed)
	}
}

func TestATargetThatWasMissedIsOpen(t *testing.T) {
	r := newTree(t)
	run := r.engineRun()
	line := run["lines"].([]any)[0].(map[string]any)
	line["atLeast"], line["met"] = true, false
	r.measure(run)
	r.commit()
	r.rerunTests()
	if healthy, printed, err := r.run(); err != nil || !healthy || !strings.Contains(printed, "missed   engine: [S02] plan") {
		t.Errorf("healthy %t, error %v, printed\n%s", healthy, err, printed)
	}
}

func TestForgedNumbersEndTheReport(t *testing.T) {
	r := newTree(t)
	r.forge()
	r.commit()
	r.rerunTests()
	if _, _, err := r.run(); err == nil || !strings.Contains(err.Error(), "it says met true") {
		t.Errorf("got %v", err)
	}
}
