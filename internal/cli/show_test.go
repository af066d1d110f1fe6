package cli

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// poolsInAllStates returns pools in all states.
func poolsInAllStates(t *testing.T) []client.Object {
	t.Helper()
	named := func(name string, conditions ...metav1.Condition) *v1alpha1.WorkerPool {
		pool := cameras()
		pool.Name, pool.Status.Conditions = name, conditions
		return pool
	}
	fresh := named("fresh")
	waiting := named("waiting", v1alpha1.Ready(1, v1alpha1.ReasonAvailable, ""),
		v1alpha1.Converging(1, v1alpha1.ReasonConverging, "waiting for swarm-worker-0: it has not confirmed version 8"))
	waiting.Status.Revision, waiting.Status.ConvergedRevision, waiting.Status.Version = 5, 4, 8
	full := named("full", v1alpha1.Ready(1, v1alpha1.ReasonAvailable, ""), v1alpha1.Converged(1, ""),
		v1alpha1.Degraded(1, v1alpha1.ReasonJobsUnassigned, "2 jobs have no worker"))
	lost := named("lost", v1alpha1.NotReady(1, v1alpha1.ReasonWorkloadNotFound, "there is no StatefulSet"),
		v1alpha1.Degraded(1, v1alpha1.ReasonWorkloadNotFound, ""))
	lost.Namespace, lost.Spec.Workers.Kind = "other", v1alpha1.WorkloadDeployment
	return append(convergedPool27(t), fresh, waiting, full, lost)
}

func TestPools(t *testing.T) {
	for _, c := range []struct {
		line   string
		golden string
	}{
		{"pools", "pools.txt"},
		{"pools -A", "pools-all.txt"},
		{"pools -A -o wide", "pools-wide.txt"},
		{"pools -o name", "pools-name.txt"},
		{"pools fresh cameras", "pools-two.txt"},
		{"pools cameras -o yaml", "pool.yaml"},
		{"pools fresh full -o json", "pools.json"},
	} {
		t.Run(c.line, func(t *testing.T) { compare(t, c.golden, newCLIHarness(t, poolsInAllStates(t)...).mustRun(c.line)) })
	}
}

// A query for several pools shows the existing ones, and reports the others.
func TestPoolsOfWhichOneIsMissing(t *testing.T) {
	code, out, said := newCLIHarness(t, poolsInAllStates(t)...).run("pools cameras unknown -o name")
	if code != exitError || out != "workerpool.swarm.io/cameras\n" || !strings.Contains(said, `no pool "unknown"`) {
		t.Errorf("exit code %d, %q, %q", code, out, said)
	}
}

func TestNoPools(t *testing.T) {
	for line, want := range map[string]string{
		"pools":          `There are no pools in namespace "default": kubectl swarm pools -A lists those of all namespaces.`,
		"pools -n other": `There are no pools in namespace "other": kubectl swarm pools -A lists those of all namespaces.`,
		"pools -A":       "There are no pools: kubectl explain workerpool says how to make one.",
	} {
		if code, out, said := newCLIHarness(t).run(line); code != exitOK || out != "" || said != want+"\n" {
			t.Errorf("%s: exit code %d, %q, %q", line, code, out, said)
		}
	}
	if out := newCLIHarness(t).mustRun("pools -o json"); !strings.Contains(out, `"items": []`) {
		t.Errorf("got %s", out)
	}
}

func TestJobs(t *testing.T) {
	objects := convergedPool27(t)
	pool := objects[0].(*v1alpha1.WorkerPool)
	pool.Status.Workers[1].State, pool.Status.Workers[1].Acknowledged = v1alpha1.WorkerNotReady, v1alpha1.AckWaiting
	pool.Status.Workers = append(pool.Status.Workers, v1alpha1.WorkerStatus{Name: "swarm-worker-2", State: v1alpha1.WorkerJoining})
	pool.Status.Unassigned = []string{"stream:x", "stream:y"}
	for _, c := range []struct {
		line   string
		golden string
	}{
		{"jobs cameras", "jobs.txt"},
		{"jobs cameras -o wide", "jobs-wide.txt"},
		{"jobs cameras -o yaml", "jobs.yaml"},
		{"jobs cameras --worker swarm-worker-1 -o json", "jobs-worker.json"},
		{"jobs cameras --worker swarm-worker-1 -o name", "jobs-name.txt"},
	} {
		t.Run(c.line, func(t *testing.T) { compare(t, c.golden, newCLIHarness(t, objects...).mustRun(c.line)) })
	}
}

func TestJobsOfAConfigForEachWorker(t *testing.T) {
	pool := smallPool("a", "b")
	pool.Spec.Config = v1alpha1.PoolConfig{Name: "lists", Layout: v1alpha1.LayoutPerWorker}
	out := newCLIHarness(t, pool,
		configMap("lists-swarm-worker-10", "config.yml", fileOf(7, publishedEntry("swarm-worker-10", "b"))),
		configMap("lists-swarm-worker-2", "config.yml", fileOf(5, publishedEntry("swarm-worker-2", "a"))),
		configMap("lists", "config.yml", "of another layout: ["),
	).mustRun("jobs cameras")
	compare(t, "jobs-perworker.txt", out)
}

// poolWithHistory is a pool with three revisions, and those of its StatefulSet, which have the same label.
func poolWithHistory(t *testing.T) []client.Object {
	t.Helper()
	objects := convergedPool27(t)
	objects[0].(*v1alpha1.WorkerPool).Status.Revision = 3
	objects[0].(*v1alpha1.WorkerPool).Spec.RollbackTo = 2
	foreign := revisionOf(t, 2, "")
	foreign.Name, foreign.OwnerReferences[0].Kind, foreign.OwnerReferences[0].UID = "swarm-worker-6c5d", "StatefulSet", "other"
	foreign.Data.Raw = []byte(`{"spec": {}}`)
	two := fileOf(2, publishedEntry("swarm-worker-0", "stream:cars:new", "stream:cars:updated"),
		publishedEntry("swarm-worker-1", "stream:foo:new"))
	return append(objects, revisionOf(t, 2, two), revisionOf(t, 3, text(t, "pool-27-expected.yml")), foreign)
}

func TestHistory(t *testing.T) {
	for _, c := range []struct {
		line   string
		golden string
	}{
		{"history pool cameras", "history.txt"},
		{"history pool cameras -o wide", "history-wide.txt"},
		{"history pool cameras -o json", "history.json"},
		{"history pool cameras -o name", "history-name.txt"},
	} {
		t.Run(c.line, func(t *testing.T) { compare(t, c.golden, newCLIHarness(t, poolWithHistory(t)...).mustRun(c.line)) })
	}
	code, out, said := newCLIHarness(t, cameras()).run("history pool cameras")
	if code != exitOK || out != "" || said != "Pool \"cameras\" has no revisions yet: kubectl swarm pools cameras -o wide says why.\n" {
		t.Errorf("exit code %d, %q, %q", code, out, said)
	}
}

func TestHistoryThatCannotBeRead(t *testing.T) {
	broken := revisionOf(t, 2, "")
	broken.Data.Raw = []byte(`{"workers": 3}`)
	code, _, said := newCLIHarness(t, append(convergedPool27(t), broken)...).run("history pool cameras")
	if code != exitError || !strings.HasPrefix(said, `kubectl swarm: ControllerRevision "cameras-2": read revision: `) {
		t.Errorf("exit code %d, %q", code, said)
	}
}

func TestPrinter(t *testing.T) {
	rows := [][]cell{{{"a", green}, cellOf(5), cellOf("")}, {{"naïve", red}, cellOf(12345), {"\x1b]0;evil\a", yellow}}}
	for _, c := range []struct {
		reason  string
		colours bool
		want    string
	}{
		{"plain", false, "NAME    NUMBER   WHAT\na       5        -\nnaïve   12345    \\x1b]0;evil\\a\n"},
		{"coloured", true,
			"NAME    NUMBER   WHAT\n\x1b[32ma\x1b[0m       5        -\n\x1b[31mnaïve\x1b[0m   12345    \x1b[33m\\x1b]0;evil\\a\x1b[0m\n"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			var out bytes.Buffer
			printer{&out, c.colours}.table([]string{"NAME", "NUMBER", "WHAT"}, rows)
			if out.String() != c.want {
				t.Errorf("got %q", out.String())
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		reason string
		line   string
		want   string
	}{
		{"pools", "__complete jobs ", "cameras fresh full waiting"},
		{"pools that are not named yet", "__complete pools full fresh ", "cameras waiting"},
		{"one pool is enough", "__complete plan pool cameras ", ""},
		{"pools elsewhere", "__complete plan pool -n other ", "lost"},
		{"workers", "__complete jobs cameras --worker ", "swarm-worker-0 swarm-worker-1"},
		{"revisions", "__complete rollback pool cameras --to ", "1"},
		{"jobs", "__complete plan pool cameras --remove-job stream:cars", "stream:cars:new stream:cars:updated"},
		{"strategies", "__complete plan pool cameras --strategy ", "Sticky Contiguous Hashed"},
		{"forms", "__complete plan pool cameras -o ", "wide json yaml"},
		{"nothing of a pool that is not there", "__complete jobs unknown --worker ", ""},
		{"things to plan", "__complete plan ", "pool spread"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			code, out, _ := newCLIHarness(t, poolsInAllStates(t)...).run(c.line)
			var offered []string
			for line := range strings.Lines(out) {
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				if word != "" && !strings.HasPrefix(word, ":") && strings.HasPrefix(word, lastWord(c.line)) {
					offered = append(offered, word)
				}
			}
			if got := strings.Join(offered, " "); code != exitOK || got != c.want {
				t.Errorf("exit code %d, offers %q", code, got)
			}
		})
	}
	if out := newCLIHarness(t).mustRun("completion bash"); !strings.Contains(out, "__start_kubectl-swarm") {
		t.Errorf("got %.200s", out)
	}
}

// lastWord returns the text after the last space.
func lastWord(line string) string { return line[strings.LastIndex(line, " ")+1:] }
