// Package fakeworkers runs the workers of pods on simulated nodes. The containers of such a pod do not really run, so the test runs the
// real worker for it, in its own process, with the public SDK.
//
// It promises that a worker knows no more than its pod would: its name, its UID, and two files that a stand-in for the kubelet writes, with
// the list of the mounted ConfigMap and the pod's annotation. The list is updated only when the pod starts and when it is nudged, because a
// real kubelet may be that slow. A worker runs from when its pod is Running until the pod is being deleted. It is then asked to stop as by
// SIGTERM, and a finalizer of the template keeps the pod until it has stopped, unless the worker was set to outlive its pod. A pod of the
// same name with another UID is another worker.
//
// All workers record in one list what they start and stop. The package writes only to its pods (their address, which is one of this
// machine, and that finalizer) and to the Leases of workers that have one.
package fakeworkers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakepods"
)

const (
	// Port is the port at which workers acknowledge.
	Port = 9090
	// Label marks the pods that get a worker from this package.
	Label     = "testkit.swarm.io/worker"
	finalizer = "testkit.swarm.io/worker"
	// Lease is the annotation of a template whose workers hold their own Lease. Its value is the duration in seconds.
	Lease = "testkit.swarm.io/lease-seconds"
	// configKey is the key of the list in its ConfigMap.
	configKey = "config.yml"
)

// Template returns the pod template of a workload whose pods get workers from this package, with the ConfigMap that they mount.
func Template(labels map[string]string, config string) corev1.PodTemplateSpec {
	marked := map[string]string{Label: "worker"}
	maps.Copy(marked, labels)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: marked, Finalizers: []string{finalizer}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{
				Name: "worker", Image: "example.test/worker:1", Ports: []corev1.ContainerPort{{Name: "internal", ContainerPort: Port}},
			}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}, Optional: new(true)},
			}}},
		},
	}
}

// A WorkerSet runs the workers of all pods with the Label.
type WorkerSet struct {
	api        kubernetes.Interface
	cluster    *rest.Config
	httpClient *http.Client // of the same API server
	log        *slog.Logger
	folder     string
	cancel     context.CancelFunc
	informers  []informers.SharedInformerFactory
	work       sync.WaitGroup
	journal    entryLog

	mu      sync.Mutex
	workers map[types.UID]*Worker
	orphans []*Worker // their pods no longer exist
}

// Start runs workers for existing and new pods until Stop. The log may be nil.
func Start(ctx context.Context, cluster *rest.Config, log *slog.Logger) (*WorkerSet, error) {
	node, err := fakepods.NewNode(cluster, "fakeworkers-")
	if err != nil {
		return nil, fmt.Errorf("start workers: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(node.Config)
	if err != nil {
		return nil, fmt.Errorf("start workers: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	log = cmp.Or(log, slog.New(slog.NewTextHandler(io.Discard, nil)))
	workers := &WorkerSet{api: node.API, cluster: node.Config, httpClient: httpClient, log: log, folder: node.Folder, cancel: cancel,
		workers: map[types.UID]*Worker{}}
	if err := workers.watch(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("start workers: %w", err)
	}
	return workers, nil
}

// watch watches the pods, and the ConfigMaps of pools.
func (s *WorkerSet) watch(ctx context.Context) error {
	factoryFor := func(selector string) informers.SharedInformerFactory {
		only := informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = selector })
		factory := informers.NewSharedInformerFactoryWithOptions(s.api, 0, only)
		s.informers = append(s.informers, factory)
		return factory
	}
	_, configMapsErr := factoryFor(v1alpha1.LabelPool).Core().V1().ConfigMaps().Informer().AddEventHandler(fakepods.Handler(
		s.updateConfig, func(*corev1.ConfigMap) {}))
	_, podsErr := factoryFor(Label).Core().V1().Pods().Informer().AddEventHandler(fakepods.Handler(
		func(pod *corev1.Pod) { s.ensureWorker(ctx, pod) }, s.removeWorker))
	if err := errors.Join(configMapsErr, podsErr); err != nil {
		return err
	}
	for _, factory := range s.informers {
		factory.Start(ctx.Done())
	}
	return nil
}

// ensureWorker starts, nudges or stops the worker of a pod.
func (s *WorkerSet) ensureWorker(ctx context.Context, pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	worker := s.workers[pod.UID]
	switch {
	case ctx.Err() != nil:
	case pod.DeletionTimestamp != nil:
		if worker == nil {
			worker = newWorker(s, pod)
			s.workers[pod.UID] = worker
		}
		worker.stopOnce.Do(func() { s.work.Go(worker.stopAndReleasePod) })
	case worker != nil:
		worker.nudge(requestedVersion(pod))
	case pod.Status.Phase == corev1.PodRunning:
		added := newWorker(s, pod)
		s.workers[pod.UID] = added
		s.work.Go(func() { added.start(ctx) })
	}
}

// removeWorker drops the worker of a deleted pod.
func (s *WorkerSet) removeWorker(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if worker := s.workers[pod.UID]; worker != nil {
		delete(s.workers, pod.UID)
		if worker.outlivesPod.Load() {
			s.orphans = append(s.orphans, worker)
			return
		}
		worker.stopOnce.Do(func() { s.work.Go(worker.stop) }) // its finalizer was removed
	}
}

// updateConfig passes a new list to the workers that mount it.
func (s *WorkerSet) updateConfig(config *corev1.ConfigMap) {
	for _, worker := range s.allWorkers() {
		if worker.namespace == config.Namespace && worker.config == config.Name {
			worker.setLatestList(config.Data[configKey])
		}
	}
}

func (s *WorkerSet) allWorkers() []*Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Worker, 0, len(s.workers))
	for _, worker := range s.workers {
		all = append(all, worker)
	}
	return all
}

// Worker returns the running worker of a pod, nil if there is none.
func (s *WorkerSet) Worker(namespace, pod string) *Worker {
	for _, worker := range s.allWorkers() {
		if worker.namespace == namespace && worker.name == pod && worker.isRunning() {
			return worker
		}
	}
	return nil
}

// Journal returns what the workers of a namespace have started and stopped so far.
func (s *WorkerSet) Journal(namespace string) Journal { return s.journal.inNamespace(namespace) }

// Stop stops all workers, and waits until nothing runs any more. Remaining pods stay forever: delete their workloads first.
func (s *WorkerSet) Stop() {
	s.cancel()
	for _, factory := range s.informers {
		factory.Shutdown()
	}
	for _, worker := range s.allWorkers() {
		worker.stopOnce.Do(func() { s.work.Go(worker.stop) })
	}
	for _, worker := range s.orphans {
		worker.stop()
	}
	s.work.Wait()
	if err := os.RemoveAll(s.folder); err != nil {
		s.log.Warn("cannot remove the folder of the workers", "error", err)
	}
}
