package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/tools/internal/stamp"
)

// fakeCluster stands for bin/devcluster: it does what `devcluster run` does for its command, and notes when it is gone.
const fakeCluster = `#!/bin/sh
case "$1" in
run) while [ "$1" != -- ]; do shift; done; shift
  mkdir -p $(dirname $0)/../data/logs && echo etcd is well > $(dirname $0)/../data/logs/etcd.log
  KUBECONFIG=/none/kubeconfig DEVCLUSTER_DATA=$(dirname $0)/../data "$@"; echo gone >> $(dirname $0)/../down;;
kubectl) shift; echo "kubectl $@";;
esac
`

const passing = `echo '[{"SpecReports": [{"LeafNodeType": "It", "LeafNodeText": "works", "State": "passed", "RunTime": 1500000000}]}]' > $report`

const failing = `echo "a long story"
echo '[{"SpecReports": [{"LeafNodeType": "It", "LeafNodeText": "breaks", "State": "failed", "Failure": {"Message": "expected 1 to be 2"}}]}]' > $report; exit 1`

// newFakeTree is a tree with suites that are shell scripts in place of compiled tests.
func newFakeTree(t *testing.T, scripts map[string]string) *runner {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "bin", "devcluster"), fakeCluster)
	var suites []suite
	for name, script := range scripts {
		found, ok := suiteIn("test/" + name)
		if !ok {
			t.Fatalf("%s is no suite", name)
		}
		suites = append(suites, found)
		write(t, found.binary(root), "#!/bin/sh\nfor a in \"$@\"; do case $a in -ginkgo.json-report=*) report=${a#*=};; esac; done\n"+script+"\n")
		if err := os.MkdirAll(filepath.Join(root, found.folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := newRunner(options{root: root, lanes: 2, timeout: time.Minute}, suites)
	if err := os.MkdirAll(r.results("logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestRunSucceedsWhenAllSuitesDo(t *testing.T) {
	r := newFakeTree(t, map[string]string{"integration/a": passing, "integration/b": `test -n "$KUBECONFIG" && ` + passing,
		"devcluster": passing})
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.summarize(&out); err != nil || !strings.Contains(out.String(), "\n3 passed, 0 failed, 0 skipped\n") ||
		!strings.Contains(out.String(), "  1.5s  ") {
		t.Errorf("got %v\n%s", err, out.String())
	}
	for lane := 1; lane <= 2; lane++ {
		if want := fmt.Sprintf("\n  lane %d: %s\n", lane, timeOfLane(t, r, lane).Round(time.Second)); !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	if gone := strings.Count(read(t, filepath.Join(r.root, "down")), "gone"); gone == 0 || gone > 2 {
		t.Errorf("%d clusters ended", gone)
	}
}

func timeOfLane(t *testing.T, r *runner, lane int) time.Duration {
	t.Helper()
	for _, one := range r.lanes {
		if one.lane == lane {
			return one.total
		}
	}
	t.Errorf("the time of lane %d is not known", lane)
	return 0
}

func TestSummaryShowsTheTimeOfEachLane(t *testing.T) {
	r := newRunner(options{root: t.TempDir()}, nil)
	r.start = time.Now().Add(-time.Hour)
	r.lanes = []laneTime{{2, 1200 * time.Second}, {1, 1201400 * time.Millisecond}}
	var out strings.Builder
	r.writeLanes(&out)
	want := regexp.MustCompile(`^\nLanes\n  lane 1: 20m1s\n  lane 2: 20m0s\n  all of it: 1h\d+m\d+s\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("got %q, want %s", out.String(), want)
	}
}

func TestRunFailsWithASuite(t *testing.T) {
	for reason, script := range map[string]string{
		"a spec fails": failing, "it crashes": "exit 2", "it writes no report": "true", "nothing runs": `echo '[]' > $report`,
	} {
		t.Run(reason, func(t *testing.T) {
			r := newFakeTree(t, map[string]string{"integration/good": passing, "integration/bad": script})
			err := r.run(t.Context())
			if err == nil || !strings.Contains(err.Error(), "1 of 2 suites failed or did not run") {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// failingOnce is the Makefile of a tree in which the first installation of the operator fails.
const failingOnce = "e2e-cluster:\n\t@test -e tried || { touch tried; exit 1; }\n"

func TestSuiteGetsANewClusterAfterAFailedInstallation(t *testing.T) {
	r := newFakeTree(t, map[string]string{"e2e/first": passing, "e2e/second": passing, "e2e/third": passing})
	r.options.lanes = 1
	write(t, filepath.Join(r.root, "Makefile"), failingOnce)
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "1 of 3 suites failed or did not run") {
		t.Errorf("got %v", err)
	}
	if down := read(t, filepath.Join(r.root, "down")); down != "gone\ngone\n" {
		t.Errorf("clusters that ended: %q", down)
	}
	for _, ended := range r.ended {
		if !ended.hasFailed() {
			continue
		}
		if log := read(t, filepath.Join(ended.artifacts, "cluster", "etcd.log")); !strings.Contains(log, "etcd is well") {
			t.Errorf("kept of the cluster without an operator: %q", log)
		}
	}
}

func TestSuiteIsInterruptedBeforeTheTestingPackageEndsIt(t *testing.T) {
	l := &lane{runner: newRunner(options{root: t.TempDir(), timeout: 15 * time.Minute}, nil)}
	of := map[string]time.Duration{}
	for _, argument := range l.arguments(suite{name: "integration/pool", level: "integration"}) {
		name, value, _ := strings.Cut(argument, "=")
		if length, err := time.ParseDuration(value); err == nil {
			of[name] = length
		}
	}
	limit, hard, progress := of["-ginkgo.timeout"], of["-test.timeout"], of["-ginkgo.poll-progress-after"]
	if limit != l.timeout || hard < limit+time.Minute {
		t.Errorf("the suite is interrupted after %s and ended after %s, want %s and at least a minute to clean up", limit, hard, l.timeout)
	}
	if progress <= 0 || progress >= limit {
		t.Errorf("a spec is reported after %s, and the suite interrupted after %s", progress, limit)
	}
}

// TestHangingSuiteIsEndedAndNamesTheSpec runs a real Ginkgo suite with the arguments of every suite.
func TestHangingSuiteIsEndedAndNamesTheSpec(t *testing.T) {
	r := newFakeTree(t, map[string]string{"integration/hanging": ""})
	r.timeout = 2 * time.Second
	if err := os.Remove(r.waiting[0].binary(r.root)); err != nil {
		t.Fatal(err)
	}
	compile := exec.CommandContext(t.Context(), "go", "test", "-c", withoutDWARF, "-o", r.waiting[0].binary(r.root), "./test/testdata/hanging")
	compile.Dir = filepath.Join("..", "..")
	if output, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, output)
	}
	if err := r.run(t.Context()); err == nil {
		t.Fatal("a suite that hangs passes")
	}
	var out strings.Builder
	r.ended[0].explain(&out)
	if !strings.Contains(out.String(), "waits for an answer that never comes") || !strings.Contains(out.String(), "(timedout)") {
		t.Errorf("no line that names the spec and says that it timed out:\n%s", out.String())
	}
	if log := read(t, filepath.Join(r.results("failures", "integration-hanging"), "integration-hanging.log")); !strings.Contains(log,
		"hanging.waitForever") {
		t.Errorf("no goroutine that shows where it waits:\n%s", log)
	}
}

func TestClusterThatIsNeverReadyIsGivenUp(t *testing.T) {
	r := newFakeTree(t, map[string]string{"integration/waiting": passing})
	r.timeout = 100 * time.Millisecond
	write(t, filepath.Join(r.root, "bin", "devcluster"), "#!/bin/sh\nexec sleep 60\n")
	if err := r.run(t.Context()); err == nil {
		t.Fatal("a suite without a cluster passes")
	}
	if err := r.ended[0].err; err == nil || !strings.Contains(err.Error(), "the cluster was not ready after 100ms") {
		t.Errorf("got %v", err)
	}
}

func TestFailureLeavesArtifacts(t *testing.T) {
	r := newFakeTree(t, map[string]string{"integration/bad": failing})
	if err := r.run(t.Context()); err == nil {
		t.Fatal("a failed suite passes")
	}
	folder := r.results("failures", "integration-bad")
	for file, want := range map[string]string{
		"integration-bad.log": "a long story", "integration-bad.json": "expected 1 to be 2", "events.txt": "get events",
		"cluster/etcd.log": "etcd is well",
	} {
		if got := read(t, filepath.Join(folder, file)); !strings.Contains(got, want) {
			t.Errorf("%s: %q", file, got)
		}
	}
	var out strings.Builder
	r.ended[0].explain(&out)
	if !strings.Contains(out.String(), "FAILED (failed): breaks") || !strings.Contains(out.String(), folder) {
		t.Errorf("got\n%s", out.String())
	}
}

// fakeGotestsum stands for bin/gotestsum: the tests of the module "tools" fail.
const fakeGotestsum = `#!/bin/sh
while [ "$1" != --jsonfile ]; do shift; done
case "$2" in
*-tools.json) echo '{"Action": "fail", "Test": "TestBroken"}' > "$2"; exit 1;;
*) echo '{"Action": "pass", "Test": "TestWorking"}' > "$2";;
esac
`

func TestFailedUnitTestsLeaveTheReportOfEachModule(t *testing.T) {
	r := newFakeTree(t, nil)
	r.waiting = []suite{{name: "unit", level: "unit", kind: noCluster, modules: []module{{root: "."}, {root: "tools"}}}}
	write(t, filepath.Join(r.root, "bin", "gotestsum"), fakeGotestsum)
	if err := os.Mkdir(filepath.Join(r.root, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.run(t.Context()); err == nil {
		t.Fatal("failed unit tests pass")
	}
	for file, want := range map[string]string{"unit-root.json": "TestWorking", "unit-tools.json": "TestBroken"} {
		if got := read(t, r.results("failures", "unit", file)); !strings.Contains(got, want) {
			t.Errorf("%s: %q", file, got)
		}
	}
}

func TestPlannedReportsAreNamedBeforeTheFirstSuiteRuns(t *testing.T) {
	r := newFakeTree(t, nil)
	r.waiting = []suite{{name: "unit", level: "unit", kind: noCluster, modules: []module{{root: "."}, {root: "tools"}}}}
	for _, arguments := range [][]string{
		{"init", "--quiet"}, {"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--allow-empty", "--message",
			"begin"},
	} {
		command := exec.CommandContext(t.Context(), "git", arguments...)
		command.Dir = r.root
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", arguments, err, output)
		}
	}
	if err := r.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := stamp.Read(r.results()); err != nil || !slices.Equal(got.PlannedReports, []string{"unit-root.json", "unit-tools.json"}) {
		t.Errorf("planned %q, %v", got.PlannedReports, err)
	}
}

func TestInterruptedRunEndsItsClusters(t *testing.T) {
	r := newFakeTree(t, map[string]string{"integration/endless": "echo > $report.pipe; exec sleep 60", "integration/later": passing})
	r.options.lanes = 1
	pipe := r.results("integration-endless.json.pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		defer interrupt()
		if _, err := os.ReadFile(pipe); err != nil {
			t.Error(err)
		}
	}()
	if err := r.run(ctx); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("got %v", err)
	}
	if down := read(t, filepath.Join(r.root, "down")); down != "gone\n" {
		t.Errorf("got %q", down)
	}
}

func TestOneRunInATree(t *testing.T) {
	root := t.TempDir()
	unlock, err := lock(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(root); err == nil || !strings.Contains(err.Error(), "another run uses this working tree") {
		t.Errorf("got %v", err)
	}
	unlock()
	again, err := lock(root)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	for want, arguments := range map[string][]string{
		`no level "smoke": name some of unit, integration, e2e`: {"smoke"}, "name at least one level": {},
		"at least one lane": {"--lanes", "0", "unit"},
	} {
		if _, err := parse(arguments); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", arguments, err)
		}
	}
}
