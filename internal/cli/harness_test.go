package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/testkit/golden"
)

// testTime is the time of the tests.
var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// cliHarness is a cluster with its objects, and the user's terminal.
type cliHarness struct {
	t       *testing.T
	api     client.Client
	objects []client.Object
}

func newCLIHarness(t *testing.T, objects ...client.Object) *cliHarness {
	t.Helper()
	t.Setenv("KUBECONFIG", "/dev/null") // no cluster
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return &cliHarness{t: t, api: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), objects: objects}
}

// run runs the program, and returns its exit code and output.
func (w *cliHarness) run(line string) (code int, out, errOut string) {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	program := Program{
		IOStreams: genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}, Build: Build{"v1", "abc", "today"},
		Connect: func() (client.Client, error) { return w.api, nil }, Now: func() time.Time { return testTime },
	}
	arguments := strings.Fields(line)
	if strings.HasSuffix(line, " ") { // the shell waits for a completion
		arguments = append(arguments, "")
	}
	code = program.Run(w.t.Context(), arguments)
	return code, stdout.String(), stderr.String()
}

// mustRun runs the program successfully, and returns its output.
func (w *cliHarness) mustRun(line string) string {
	w.t.Helper()
	code, out, said := w.run(line)
	if code != exitOK || said != "" {
		w.t.Fatalf("kubectl swarm %s: exit code %d, %s", line, code, said)
	}
	return out
}

// compare compares text with a golden file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, "testdata/"+name, got)
}

// mustDecode decodes an answer.
func mustDecode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

// cameras is a pool of a StatefulSet with the well-known 27 jobs, from a ConfigMap.
func cameras() *v1alpha1.WorkerPool {
	return &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cameras", UID: "cameras-uid"},
		Spec: v1alpha1.WorkerPoolSpec{
			Workers:  v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: "swarm-worker"},
			JobsFrom: []v1alpha1.JobSource{{ConfigMapKeyRef: v1alpha1.ConfigMapKey{Name: "camera-list", Key: "jobs.txt"}}},
			Strategy: v1alpha1.PoolSticky, Handoff: v1alpha1.HandoffExclusive, Config: v1alpha1.PoolConfig{Key: "config.yml"},
		},
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile("../pool/codec/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func configMap(name, key, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{v1alpha1.LabelPool: "cameras"}},
		Data:       map[string]string{key: content},
	}
}

func statefulSet(replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "swarm-worker"},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
}

// convergedPool27 returns the objects of a converged pool of two workers, as the operator leaves them.
func convergedPool27(t *testing.T) []client.Object {
	t.Helper()
	pool := cameras()
	pool.Status = v1alpha1.WorkerPoolStatus{
		Size: 2, ExpectedSize: 2, Jobs: 27, Version: 1, Revision: 1, ConvergedRevision: 1,
		Workers: []v1alpha1.WorkerStatus{
			{Name: "swarm-worker-0", Jobs: 14, Revision: 1, Acknowledged: v1alpha1.AckReceived, State: v1alpha1.WorkerReady},
			{Name: "swarm-worker-1", Jobs: 13, Revision: 1, Acknowledged: v1alpha1.AckReceived, State: v1alpha1.WorkerReady},
		},
		Conditions: []metav1.Condition{v1alpha1.Ready(1, v1alpha1.ReasonAvailable, ""), v1alpha1.Converged(1, "everybody has it")},
	}
	published := text(t, "pool-27-expected.yml")
	return []client.Object{
		pool, statefulSet(2), configMap("camera-list", "jobs.txt", text(t, "pool-27-jobs.txt")),
		configMap("swarm-worker-config", "config.yml", published),
		revisionOf(t, 1, published),
	}
}

// revisionOf returns a kept revision with the content of a file.
func revisionOf(t *testing.T, number int64, published string) *appsv1.ControllerRevision {
	t.Helper()
	file, err := codec.ParseFile(published)
	if err != nil {
		t.Fatal(err)
	}
	data := codec.Revision{Strategy: "Sticky", Version: file.Version}
	for n, entry := range file.Workers {
		data.Workers = append(data.Workers, codec.RevisionShare{Worker: entry.Worker, Ordinal: n, Version: entry.Version, Jobs: entry.Jobs})
	}
	raw, err := data.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprint("cameras-", number), Labels: map[string]string{v1alpha1.LabelPool: "cameras"},
			CreationTimestamp: metav1.NewTime(testTime.Add(-time.Duration(10-number) * time.Hour)),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "swarm.io/v1alpha1", Kind: "WorkerPool", Name: "cameras", UID: "cameras-uid",
				Controller: new(true)}},
		},
		Data: runtime.RawExtension{Raw: raw}, Revision: number,
	}
}

// fileOf returns the workers' file, from their names and jobs.
func fileOf(version int64, entries ...codec.FileEntry) string {
	return codec.File{Version: version, Workers: entries}.String()
}

func publishedEntry(worker string, jobs ...string) codec.FileEntry {
	return codec.FileEntry{Worker: worker, Version: 3, Jobs: jobs}
}

func ledgerOf(t *testing.T, records ...assign.Record) map[string]string {
	t.Helper()
	ledger, err := codec.NewLedger(records, nil).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{v1alpha1.AnnotationLedger: ledger}
}
