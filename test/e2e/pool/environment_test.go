package pool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	journalFolder = "/journal"
	journalFile   = journalFolder + "/journal.jsonl"
	reader        = "reader"
	readerPort    = "8080"
)

// A testEnvironment is a namespace with a journal that all its workers write to, a pod that reads it, and a recorder.
type testEnvironment struct {
	namespace string
	recorder  *recorder
}

func open(ctx context.Context) *testEnvironment {
	GinkgoHelper()
	env := &testEnvironment{namespace: cluster.CreateNamespace(ctx, "swarm-e2e-pool-")}
	env.recorder = record(ctx, env.namespace)
	DeferCleanup(env.recorder.stop)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "journal"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")}},
		},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: reader}, Spec: restricted(corev1.Container{
		Name: reader, Image: testcluster.ProbeImage(), Args: []string{"serve", "--port", readerPort},
		VolumeMounts: []corev1.VolumeMount{{Name: "journal", MountPath: journalFolder}},
	}, claimVolume("journal"))}
	create(ctx, claim, pod)
	return env
}

// A journalEntry is a line of the journal that the workers of an environment share.
type journalEntry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // boot, start, stop, acknowledge
	Worker  string    `json:"worker"`
	PodUID  string    `json:"podUID"`
	Job     string    `json:"job"`
	Version int64     `json:"version"`
	Config  int64     `json:"config"`
}

func (l journalEntry) String() string {
	return fmt.Sprintf("%s %s (%.8s) %s %s", l.Time.Format("05.000"), l.Worker, l.PodUID, l.Event, l.Job)
}

// readJournal is the journal so far, for Eventually.
func (s *testEnvironment) readJournal(ctx context.Context) ([]journalEntry, error) {
	text, err := core.CoreV1().Pods(s.namespace).ProxyGet("http", reader, readerPort, "file",
		map[string]string{"path": journalFile}).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var lines []journalEntry
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for scanner.Scan() {
		var parsed journalEntry
		if err := json.Unmarshal(scanner.Bytes(), &parsed); err != nil {
			return nil, fmt.Errorf("read journal: %w: %s", err, scanner.Text())
		}
		lines = append(lines, parsed)
	}
	return lines, nil
}

// journal returns the journal so far. It waits until there is one.
func (s *testEnvironment) journal(ctx context.Context) []journalEntry {
	GinkgoHelper()
	var lines []journalEntry
	Eventually(func() (err error) {
		lines, err = s.readJournal(ctx)
		return err
	}).WithContext(ctx).Should(Succeed())
	return lines
}

// workerStatus is what a worker reports about itself.
type workerStatus struct {
	Worker  string `json:"worker"`
	PodUID  string `json:"podUID"`
	Version int64  `json:"version"`
	Config  int64  `json:"config"`
}

// fetchStatus queries a worker as the operator does.
func (s *testEnvironment) fetchStatus(ctx context.Context, pod string) (said workerStatus, err error) {
	err = s.fetch(ctx, pod, "internal/version", &said)
	return said, err
}

// health returns the health that a worker reports.
type health struct {
	Status  string `json:"status"`
	Problem string `json:"problem"`
	Running int    `json:"running"`
}

func (s *testEnvironment) health(ctx context.Context, pod string) (said health, err error) {
	err = s.fetch(ctx, pod, "internal/health", &said)
	return said, err
}

func (s *testEnvironment) fetch(ctx context.Context, pod, path string, into any) error {
	text, err := core.CoreV1().Pods(s.namespace).ProxyGet("http", pod, port, path, nil).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("ask %s: %w", pod, err)
	}
	return json.Unmarshal(text, into)
}

// pods are the pods of a workload, by name.
func (s *testEnvironment) pods(ctx context.Context, workload string) (map[string]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := api.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"app": workload}); err != nil {
		return nil, err
	}
	found := map[string]*corev1.Pod{}
	for n := range list.Items {
		found[list.Items[n].Name] = &list.Items[n]
	}
	return found, nil
}
