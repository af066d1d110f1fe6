package cli

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func TestAloneItHelps(t *testing.T) {
	code, out, said := newCLIHarness(t).run("")
	if code != exitOK || said != "" {
		t.Fatalf("%d, %s", code, said)
	}
	for _, part := range []string{"kubectl swarm plan pool cameras --replicas 3", "rollback", "completion", "--namespace", "--kubeconfig"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	for _, part := range []string{"--tls-server-name", "kubectl-swarm"} {
		if strings.Contains(out, part) {
			t.Errorf("%q in\n%s", part, out)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := newCLIHarness(t).mustRun("version"); got != "kubectl-swarm v1 (commit abc, today)\n" {
		t.Errorf("got %q", got)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		reason string
		line   string
		said   string
	}{
		{"no such command", "swarms", `there is no command "swarms": see kubectl swarm --help`},
		{"no such thing to plan", "plan swarm", `there is no command "swarm": see kubectl swarm plan --help`},
		{"no such flag", "pools --all", "unknown flag: --all: see kubectl swarm pools --help"},
		{"no such form", "pools -o xml",
			`invalid argument "xml" for "-o, --output" flag: must be one of wide, name, json, yaml: see kubectl swarm pools --help`},
		{"a form of others", "plan pool cameras -o name", `must be one of wide, json, yaml: see kubectl swarm plan pool --help`},
		{"names in all namespaces", "pools cameras -A", "a pool is named in one namespace: use -n instead of -A: see kubectl swarm pools --help"},
		{"no pool", "jobs", "name a pool: see kubectl swarm jobs --help"},
		{"two pools", "plan pool a b", "name one pool, not 2: see kubectl swarm plan pool --help"},
		{"no such strategy", "plan pool cameras --strategy random",
			`--strategy "random" is none of Sticky, Contiguous, Hashed: see kubectl swarm plan pool --help`},
		{"fewer than no workers", "plan pool cameras --replicas -1", "--replicas -1 is not from 0 to 10000: see kubectl swarm plan pool --help"},
		{"words for a number", "plan pool cameras --replicas many", `invalid argument "many" for "--replicas" flag`},
		{"back to nowhere", "rollback pool cameras",
			"say where to, --to REVISION or --undo; kubectl swarm history pool cameras lists the revisions: see kubectl swarm rollback pool --help"},
		{"back and forth", "rollback pool cameras --to 1 --undo", "--to and --undo are mutually exclusive: see kubectl swarm rollback pool --help"},
		{"before the beginning", "rollback pool cameras --to -1", "--to -1 is not a revision: see kubectl swarm rollback pool --help"},
		{"more than a version", "version please", `unexpected argument "please": see kubectl swarm version --help`},
	} {
		t.Run(c.reason, func(t *testing.T) {
			code, out, stderr := newCLIHarness(t, convergedPool27(t)...).run(c.line)
			if code != exitUsage || out != "" || !strings.HasPrefix(stderr, "kubectl swarm: ") || !strings.Contains(stderr, c.said) ||
				strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, %q, %q", code, out, stderr)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	empty := cameras()
	empty.Name, empty.Spec.JobsFrom = "empty", nil
	lost := cameras()
	lost.Name, lost.Spec.Workers.Name = "lost", "missing"
	listless := cameras()
	listless.Name, listless.Spec.JobsFrom[0].ConfigMapKeyRef.Name = "listless", "none"
	keyless := cameras()
	keyless.Name, keyless.Spec.JobsFrom[0].ConfigMapKeyRef.Key = "keyless", "none"
	twice := cameras()
	twice.Name = "twice"
	twice.Spec.JobsFrom = append(twice.Spec.JobsFrom, twice.Spec.JobsFrom...)
	for _, other := range []*v1alpha1.WorkerPool{listless, keyless, twice} {
		other.Spec.Config.Name = other.Name
	}
	garbled := cameras()
	garbled.Name, garbled.Spec.Config.Name = "garbled", "garbled-config"
	garbledConfig := configMap("garbled-config", "config.yml", "version: [")
	garbledConfig.Labels[v1alpha1.LabelPool] = garbled.Name
	objects := slices.Concat(convergedPool27(t), []client.Object{empty, lost, listless, keyless, twice, garbled, garbledConfig})
	for _, c := range []struct {
		reason string
		line   string
		said   string
	}{
		{"no such pool", "pools camera", `there is no pool "camera" in namespace "default": kubectl swarm pools -A lists all there are`},
		{"no such pool elsewhere", "jobs cameras -n other",
			`there is no pool "cameras" in namespace "other": kubectl swarm pools -A lists all there are`},
		{"no such worker", "jobs cameras --worker w", `pool "cameras" has no worker "w": leave out --worker to see all`},
		{"nothing published", "jobs lost",
			`pool "lost" has not published ConfigMap "missing-config" yet: kubectl swarm pools lost -o wide says why`},
		{"a file that is none", "jobs garbled",
			`ConfigMap "garbled-config": read the workers' file: line 1: did not find expected node content: delete it and let the operator write it anew`},
		{"no workload", "plan pool lost", `there is no StatefulSet "missing" in namespace "default": create it, or delete this pool`},
		{"no list of jobs", "plan pool listless", `there is no ConfigMap "none": create it, or take it out of jobsFrom`},
		{"no key with jobs", "plan pool keyless", `ConfigMap "camera-list" has no key "none": add it, or correct jobsFrom`},
		{"jobs twice", "plan pool twice",
			`job "stream:xxrtve1" is in the list twice: correct the list; until then the assignment stays as it is`},
		{"a job that is there", "plan pool cameras --add-job stream:cars:new",
			`job "stream:cars:new" is in the list already: omit --add-job stream:cars:new`},
		{"a job that is not there", "plan pool cameras --remove-job x", `job "x" is not in the list: omit --remove-job x`},
		{"no such revision", "rollback pool cameras --to 7", `revision 7 of pool "cameras" is not kept: choose one of 1`},
		{"no revisions", "rollback pool empty --to 1", `pool "empty" has no revisions yet: there is nothing to go back to`},
	} {
		t.Run(c.reason, func(t *testing.T) {
			code, out, stderr := newCLIHarness(t, objects...).run(c.line)
			if code != exitError || out != "" || stderr != "kubectl swarm: "+c.said+"\n" {
				t.Errorf("exit code %d, %q, %q", code, out, stderr)
			}
		})
	}
}

// Every error of the cluster becomes one line that says what to do about it.
func TestExplained(t *testing.T) {
	pools := schema.GroupResource{Group: "swarm.io", Resource: "workerpools"}
	for _, c := range []struct {
		reason string
		err    error
		said   string
	}{
		{"the operator is not installed", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "swarm.io", Kind: "WorkerPool"}},
			"the cluster knows no WorkerPool: install the operator, see docs/how-to/install.md"},
		{"no cluster", clientcmd.ErrEmptyConfig, "no cluster is configured: set KUBECONFIG, or use --kubeconfig"},
		{"no right", apierrors.NewForbidden(pools, "cameras", errors.New("no")), ": ask for that right, or use --context or --as"},
		{"no login", apierrors.NewUnauthorized("who are you"), "who are you: log in again, or use --context"},
		{"no answer", &url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused\nreally")},
			`connection refused; really: check that the cluster runs, and --context and --kubeconfig`},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w := newCLIHarness(t)
			w.api = failingClient{w.api, c.err}
			code, _, stderr := w.run("pools")
			if code != exitError || !strings.HasSuffix(stderr, c.said+"\n") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, %q", code, stderr)
			}
		})
	}
}

// failingClient is a cluster that answers everything with the same error.
type failingClient struct {
	client.Client
	err error
}

func (r failingClient) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return r.err
}
