package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/test/bench/report"
)

func TestLatencyAtHalfOfAThroughputThatWasNotReachedHasRows(t *testing.T) {
	b := &bench{report: &report.Report{}}
	if err := b.latencyAt(t.Context(), b.ceiling/2); err != nil {
		t.Fatal(err)
	}
	checkNotReached(t, b.report, "create to start, half of the throughput, p50", "create to start, half of the throughput, p99",
		"create to Completed, half of the throughput, p50", "create to Completed, half of the throughput, p99")
}

func TestQueueThatIsNotCreatedInTimeEndsItsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{report: &report.Report{}, cluster: slowCluster(t)}
		ctx, cancel := context.WithTimeout(t.Context(), partLimit)
		defer cancel()
		began := time.Now()
		if err := b.measureQueueAt(ctx, 100_000, 100); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != rowLimit {
			t.Errorf("creating the tasks ended after %s, want %s", took, rowLimit)
		}
		checkNotReached(t, b.report, "[X05/throughput] throughput of 2000 short tasks beside 100000 that wait",
			"[X05/first-completion] first completion after unpausing 100000 tasks")
	})
}

// The bounds for one tenant hold on any machine: a bound that is missed fails the benchmark.
func TestBoundsOfOneTenantFailTheBenchmark(t *testing.T) {
	reportHandBacks := int(handBackDuration.Seconds()) * maxHandBackWrites
	for name, row := range map[string]func(b *bench, exceed int){
		"memory with a mesh":               func(b *bench, exceed int) { b.reportMesh(float64(leaderMemory+exceed), etcdGrowth) },
		"etcd with a mesh":                 func(b *bench, exceed int) { b.reportMesh(leaderMemory, float64(etcdGrowth+exceed)) },
		"memory with something":            func(b *bench, exceed int) { b.reportLeader("something", float64(leaderMemory+exceed), true) },
		"memory with foreign ConfigMaps":   func(b *bench, exceed int) { b.reportForeign(foreign, float64(leaderMemory+exceed)) },
		"number of the foreign ConfigMaps": func(b *bench, exceed int) { b.reportForeign(foreign-exceed, leaderMemory) },
		"writes for what is handed back":   func(b *bench, exceed int) { b.reportHandBacks(8, 8, reportHandBacks+exceed) },
	} {
		for exceed, misses := range []bool{false, true} {
			b := &bench{report: &report.Report{}}
			row(b, exceed)
			if err := b.report.Missed(); (err != nil) != misses {
				t.Errorf("%s, %d beyond its bound: got %v, want an error: %t", name, exceed, err, misses)
			}
		}
	}
}

func TestForeignConfigMapsThatWereNotAllCreatedAreNotReached(t *testing.T) {
	b := &bench{report: &report.Report{}}
	b.reportForeign(foreign-1, 1)
	if missed := b.report.Missed(); missed == nil || !strings.Contains(missed.Error(), "1000 foreign ConfigMaps of 1 MiB") ||
		!strings.Contains(missed.Error(), "NOT REACHED") {
		t.Errorf("got %v", missed)
	}
}

// slowCluster has an API server that needs ten seconds for each task.
func slowCluster(t *testing.T) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	swarm := &v1alpha1.Swarm{}
	swarm.Namespace, swarm.Name = space, "parked"
	slow := interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Second):
			return nil
		}
	}}
	return &cluster{api: fake.NewClientBuilder().WithScheme(scheme).WithObjects(swarm).WithInterceptorFuncs(slow).Build()}
}

// checkNotReached checks that a report has exactly these rows, none of which was reached.
func checkNotReached(t *testing.T, r *report.Report, want ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "results.json")
	content, err := []byte(nil), r.Close(file)
	if err == nil {
		content, err = os.ReadFile(file)
	}
	var results struct {
		Runs []struct{ Lines []report.Line }
	}
	if err := errors.Join(err, json.Unmarshal(content, &results)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range results.Runs[0].Lines {
		got = append(got, line.Measure)
		if !line.NotReached || line.Met {
			t.Errorf("not shown as missed: %s", line)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("rows: %q, want %q", got, want)
	}
}
