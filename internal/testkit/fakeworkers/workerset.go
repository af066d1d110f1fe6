// Package fakeworkers is the workers of pods on simulated nodes: the containers of such a pod only seem to run, so a test runs the real
// worker for it, in its own process, on the public SDK.
//
// It promises that a worker knows no more than its pod would: its name, its UID, and two files that a stand-in for the kubelet writes, the
// list of the ConfigMap that the pod mounts and the pod's annotation. A list is brought when the pod starts and when it is nudged, never
// otherwise: a kubelet may well be as slow as that. A worker lives from when its pod is Running until the pod is being deleted, when it is
// asked to stop as by SIGTERM, and the pod goes only after it has ended (a finalizer of the template sees to that), unless it was set to
// outlive it. A pod of the same name with another UID is another worker.
//
// What workers start and stop is noted in one list, in the order in which it happened. The set of workers writes to nothing but its pods,
// their address, which is one of this machine's, and that finalizer, and to the Leases of workers that are to have one.
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
	// Port is where workers acknowledge.
	Port = 9090
	// Label marks the pods that have a worker here.
	Label     = "testkit.swarm.io/worker"
	finalizer = "testkit.swarm.io/worker"
	// Lease is the annotation of a template whose workers hold a Lease of their own, with its duration in seconds.
	Lease = "testkit.swarm.io/lease-seconds"
	// configKey is that of the list in its ConfigMap.
	configKey = "config.yml"
)

// Template is the pod template of a workload whose pods have workers here, with the ConfigMap that they mount.
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

// A WorkerSet is all workers of the pods with its template.
type WorkerSet struct {
	api        kubernetes.Interface
	cluster    *rest.Config
	httpClient *http.Client // to the same API server
	log        *slog.Logger
	folder     string
	cancel     context.CancelFunc
	informers  []informers.SharedInformerFactory
	work       sync.WaitGroup
	journal    entryLog

	mu      sync.Mutex
	workers map[types.UID]*Worker
	orphans []*Worker // their pods are gone
}

// Start begins to run workers, for existing and for new pods, until Stop. The log may be nil.
func Start(ctx context.Context, cluster *rest.Config, log *slog.Logger) (*WorkerSet, error) {
	node, err := fakepods.NewNode(cluster, "fakeworkers-")
	if err != nil {
		return nil, fmt.Errorf("start workers: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(node.Config)
	if err != nil {
		return nil, fmt.Errorf("start workers: %w", err)
	}
	ctx, leave := context.WithCancel(ctx)
	log = cmp.Or(log, slog.New(slog.NewTextHandler(io.Discard, nil)))
	workers := &WorkerSet{api: node.API, cluster: node.Config, httpClient: httpClient, log: log, folder: node.Folder, cancel: leave,
		workers: map[types.UID]*Worker{}}
	if err := workers.watch(ctx); err != nil {
		leave()
		return nil, fmt.Errorf("start workers: %w", err)
	}
	return workers, nil
}

// watch follows the pods, and the ConfigMaps of pools.
func (g *WorkerSet) watch(ctx context.Context) error {
	factoryFor := func(selector string) informers.SharedInformerFactory {
		only := informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = selector })
		factory := informers.NewSharedInformerFactoryWithOptions(g.api, 0, only)
		g.informers = append(g.informers, factory)
		return factory
	}
	_, configMapsErr := factoryFor(v1alpha1.LabelPool).Core().V1().ConfigMaps().Informer().AddEventHandler(fakepods.Handler(
		g.updateConfig, func(*corev1.ConfigMap) {}))
	_, podsErr := factoryFor(Label).Core().V1().Pods().Informer().AddEventHandler(fakepods.Handler(
		func(pod *corev1.Pod) { g.ensureWorker(ctx, pod) }, g.removeWorker))
	if err := errors.Join(configMapsErr, podsErr); err != nil {
		return err
	}
	for _, factory := range g.informers {
		factory.Start(ctx.Done())
	}
	return nil
}

// ensureWorker has a worker for a pod that runs, and for no other.
func (g *WorkerSet) ensureWorker(ctx context.Context, pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	worker := g.workers[pod.UID]
	switch {
	case ctx.Err() != nil:
	case pod.DeletionTimestamp != nil:
		if worker == nil {
			worker = newWorker(g, pod)
			g.workers[pod.UID] = worker
		}
		worker.stopOnce.Do(func() { g.work.Go(worker.stopAndReleasePod) })
	case worker != nil:
		worker.nudge(requestedVersion(pod))
	case pod.Status.Phase == corev1.PodRunning:
		recruit := newWorker(g, pod)
		g.workers[pod.UID] = recruit
		g.work.Go(func() { recruit.start(ctx) })
	}
}

// removeWorker drops the worker of a pod that is gone.
func (g *WorkerSet) removeWorker(pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if worker := g.workers[pod.UID]; worker != nil {
		delete(g.workers, pod.UID)
		if worker.outlivesPod.Load() {
			g.orphans = append(g.orphans, worker)
			return
		}
		worker.stopOnce.Do(func() { g.work.Go(worker.stop) }) // its finalizer was removed
	}
}

// updateConfig has a list for the workers that mount it.
func (g *WorkerSet) updateConfig(config *corev1.ConfigMap) {
	for _, worker := range g.allWorkers() {
		if worker.namespace == config.Namespace && worker.config == config.Name {
			worker.setLatestList(config.Data[configKey])
		}
	}
}

func (g *WorkerSet) allWorkers() []*Worker {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*Worker, 0, len(g.workers))
	for _, worker := range g.workers {
		all = append(all, worker)
	}
	return all
}

// Worker is the worker of a pod that runs now, nil for none.
func (g *WorkerSet) Worker(namespace, pod string) *Worker {
	for _, worker := range g.allWorkers() {
		if worker.namespace == namespace && worker.name == pod && worker.isRunning() {
			return worker
		}
	}
	return nil
}

// Journal is what all workers of a namespace have started and stopped so far.
func (g *WorkerSet) Journal(namespace string) Journal { return g.journal.inNamespace(namespace) }

// Stop ends all workers, and waits until nothing runs any more. Remaining pods stay for ever: delete their workloads before.
func (g *WorkerSet) Stop() {
	g.cancel()
	for _, factory := range g.informers {
		factory.Shutdown()
	}
	for _, worker := range g.allWorkers() {
		worker.stopOnce.Do(func() { g.work.Go(worker.stop) })
	}
	for _, worker := range g.orphans {
		worker.stop()
	}
	g.work.Wait()
	if err := os.RemoveAll(g.folder); err != nil {
		g.log.Warn("the folder of the workers is left", "error", err)
	}
}
