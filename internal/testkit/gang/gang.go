// Package gang is the workers of pods on simulated nodes: the containers of such a pod only seem to run, so a test runs the real
// worker for it, in its own process, on the public SDK.
//
// It promises that a worker knows no more than its pod would: its name, its UID, and two files that a stand-in for the kubelet writes, the
// list of the ConfigMap that the pod mounts and the pod's annotation. A list is brought when the pod starts and when it is nudged, never
// otherwise: a kubelet may well be as slow as that. A worker lives from when its pod is Running until the pod is being deleted, when it is
// asked to stop as by SIGTERM, and the pod goes only after it has ended (a finalizer of the template sees to that), unless it was set to
// outlive it. A pod of the same name with another UID is another worker.
//
// What workers start and stop is noted in one list, in the order in which it happened. The gang writes to nothing but its pods, their
// address, which is one of this machine's, and that finalizer, and to the Leases of workers that are to have one.
package gang

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
	"k8s.io/client-go/tools/cache"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	// Port is where workers acknowledge.
	Port = 9090
	// Label marks the pods that have a worker here.
	Label     = "testkit.swarm.io/gang"
	finalizer = "testkit.swarm.io/gang"
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

// A Gang is all workers of the pods with its template.
type Gang struct {
	api       kubernetes.Interface
	cluster   *rest.Config
	web       *http.Client // to the same API server
	log       *slog.Logger
	folder    string
	leave     context.CancelFunc
	informers []informers.SharedInformerFactory
	work      sync.WaitGroup
	notes     notes

	mu      sync.Mutex
	workers map[types.UID]*Worker
	orphans []*Worker // their pods are gone
}

// Start begins to run workers, for existing and for new pods, until Stop. The log may be nil.
func Start(ctx context.Context, cluster *rest.Config, log *slog.Logger) (*Gang, error) {
	own := rest.CopyConfig(cluster)
	own.QPS = -1 // a pool that starts wants all of its addresses at once
	api, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("start gang: %w", err)
	}
	web, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("start gang: %w", err)
	}
	folder, err := os.MkdirTemp("", "gang-")
	if err != nil {
		return nil, fmt.Errorf("start gang: %w", err)
	}
	ctx, leave := context.WithCancel(ctx)
	log = cmp.Or(log, slog.New(slog.NewTextHandler(io.Discard, nil)))
	gang := &Gang{api: api, cluster: own, web: web, log: log, folder: folder, leave: leave, workers: map[types.UID]*Worker{}}
	if err := gang.watch(ctx); err != nil {
		leave()
		return nil, fmt.Errorf("start gang: %w", err)
	}
	return gang, nil
}

// watch follows the pods, and the ConfigMaps of pools.
func (g *Gang) watch(ctx context.Context) error {
	labelled := func(by string) informers.SharedInformerFactory {
		only := informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = by })
		factory := informers.NewSharedInformerFactoryWithOptions(g.api, 0, only)
		g.informers = append(g.informers, factory)
		return factory
	}
	_, configs := labelled(v1alpha1.LabelPool).Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(config any) { g.offer(config.(*corev1.ConfigMap)) },
		UpdateFunc: func(_, config any) { g.offer(config.(*corev1.ConfigMap)) },
	})
	_, pods := labelled(Label).Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { g.muster(ctx, pod.(*corev1.Pod)) },
		UpdateFunc: func(_, pod any) { g.muster(ctx, pod.(*corev1.Pod)) },
		DeleteFunc: g.forget,
	})
	if err := errors.Join(configs, pods); err != nil {
		return err
	}
	for _, factory := range g.informers {
		factory.Start(ctx.Done())
	}
	return nil
}

// muster has a worker for a pod that runs, and for no other.
func (g *Gang) muster(ctx context.Context, pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.workers[pod.UID]
	switch {
	case ctx.Err() != nil:
	case pod.DeletionTimestamp != nil:
		if known == nil {
			known = newWorker(g, pod)
			g.workers[pod.UID] = known
		}
		known.leaving.Do(func() { g.work.Go(known.leave) })
	case known != nil:
		known.nudge(asked(pod))
	case pod.Status.Phase == corev1.PodRunning:
		recruit := newWorker(g, pod)
		g.workers[pod.UID] = recruit
		g.work.Go(func() { recruit.begin(ctx) })
	}
}

// forget drops the worker of a pod that is gone.
func (g *Gang) forget(gone any) {
	if unseen, missed := gone.(cache.DeletedFinalStateUnknown); missed {
		gone = unseen.Obj
	}
	pod, isPod := gone.(*corev1.Pod)
	if !isPod {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.workers[pod.UID]; known != nil {
		delete(g.workers, pod.UID)
		if known.outlives.Load() {
			g.orphans = append(g.orphans, known)
			return
		}
		known.leaving.Do(func() { g.work.Go(known.end) }) // its finalizer was removed
	}
}

// offer has a list for the workers that mount it.
func (g *Gang) offer(config *corev1.ConfigMap) {
	for _, worker := range g.all() {
		if worker.namespace == config.Namespace && worker.config == config.Name {
			worker.offer(config.Data[configKey])
		}
	}
}

func (g *Gang) all() []*Worker {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*Worker, 0, len(g.workers))
	for _, worker := range g.workers {
		all = append(all, worker)
	}
	return all
}

// Of is the worker of a pod that runs now, nil for none.
func (g *Gang) Of(namespace, pod string) *Worker {
	for _, worker := range g.all() {
		if worker.namespace == namespace && worker.name == pod && worker.runs() {
			return worker
		}
	}
	return nil
}

// Journal is what all workers of a namespace have started and stopped so far.
func (g *Gang) Journal(namespace string) Journal { return g.notes.of(namespace) }

// Stop ends all workers, and waits until nothing runs any more. Remaining pods stay for ever: delete their workloads before.
func (g *Gang) Stop() {
	g.leave()
	for _, factory := range g.informers {
		factory.Shutdown()
	}
	for _, worker := range g.all() {
		worker.leaving.Do(func() { g.work.Go(worker.end) })
	}
	for _, worker := range g.orphans {
		worker.end()
	}
	g.work.Wait()
	if err := os.RemoveAll(g.folder); err != nil {
		g.log.Warn("the gang's folder is left", "error", err)
	}
}
