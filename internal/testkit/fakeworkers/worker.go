package fakeworkers

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A Worker is the worker of one pod. Its faults end with the pod.
type Worker struct {
	set             *WorkerSet
	namespace, name string
	uid             types.UID
	config          string // the ConfigMap that the pod mounts
	folder          string // the folder with its two files
	stopOnce        sync.Once
	crashAfterStop  atomic.Bool // it crashes after the next job that it stops
	outlivesPod     atomic.Bool // it continues after its pod is removed
	disconnected    atomic.Bool // it cannot reach the API server
	leaseSeconds    int         // seconds of its Lease, 0 for none

	mu              sync.Mutex
	ended           bool
	listener        net.Listener // at the pod's address
	server          *http.Server
	process         *process
	volume          configFiles
	configVersion   string // the pod's annotation
	rejectsRequests bool
	statusOverride  func(*WorkerStatus)
}

func newWorker(set *WorkerSet, pod *corev1.Pod) *Worker {
	w := &Worker{set: set, namespace: pod.Namespace, name: pod.Name, uid: pod.UID, folder: filepath.Join(set.folder, string(pod.UID)),
		configVersion: requestedVersion(pod)}
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap != nil {
			w.config = volume.ConfigMap.Name
		}
	}
	w.leaseSeconds, _ = strconv.Atoi(pod.Annotations[Lease]) // 0 without the annotation
	w.volume.folder = w.folder
	return w
}

// requestedVersion returns the version that the pod's annotation asks for.
func requestedVersion(pod *corev1.Pod) string {
	return pod.Annotations[v1alpha1.AnnotationConfigVersion]
}

// start does what a kubelet does: it mounts the files, starts the process and sets the pod's address.
func (w *Worker) start(ctx context.Context) {
	if err := w.prepare(ctx); err != nil {
		w.set.log.Error("cannot start worker", "pod", w.name, "error", err)
		return
	}
	address := w.Address()
	if address == "" {
		return // the pod is being deleted already
	}
	status := map[string]any{"podIP": address, "podIPs": []map[string]string{{"ip": address}}}
	w.patchPod(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{"uid": w.uid}, "status": status}, "status")
}

func (w *Worker) prepare(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil
	}
	if err := os.Mkdir(w.folder, 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	list, err := w.set.api.CoreV1().ConfigMaps(w.namespace).Get(ctx, w.config, metav1.GetOptions{})
	if err == nil {
		err = w.volume.writeList(list.Data[configKey])
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mount ConfigMap %q: %w", w.config, err)
	}
	if err := w.volume.nudge(w.configVersion); err != nil {
		return err
	}
	if w.listener, err = listenOnUnusedAddress(ctx); err != nil {
		return err
	}
	w.server = &http.Server{Handler: http.HandlerFunc(w.serveStatus), ReadHeaderTimeout: requestTimeout}
	server, listener := w.server, w.listener
	w.set.work.Go(func() { _ = server.Serve(listener) })
	w.process, err = w.spawn(ctx)
	return err
}

// listenOnUnusedAddress listens on an unused address of this machine.
func listenOnUnusedAddress(ctx context.Context) (net.Listener, error) {
	const attempts = 100
	var network net.ListenConfig
	var lastErr error
	for range attempts {
		ip := net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
		listener, err := network.Listen(ctx, "tcp", net.JoinHostPort(ip.String(), strconv.Itoa(Port)))
		if err == nil {
			return listener, nil
		}
		lastErr = err
	}
	return nil, fmt.Errorf("listen at an address for the pod: %w", lastErr)
}

// Address returns the address of the pod.
func (w *Worker) Address() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener == nil {
		return ""
	}
	return w.listener.Addr().(*net.TCPAddr).IP.String()
}

func (w *Worker) isRunning() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.process != nil && !w.ended
}

// nudge updates the annotation, and writes the list that it asks for.
func (w *Worker) nudge(version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.configVersion = version
	if w.process != nil && !w.ended {
		w.logError(w.volume.nudge(version))
	}
}

// setLatestList records the list that the next nudge may write.
func (w *Worker) setLatestList(list string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil && !w.ended {
		w.logError(w.volume.setLatestList(list))
	}
}

func (w *Worker) logError(err error) {
	if err != nil {
		w.set.log.Error("cannot write the files of worker", "pod", w.name, "error", err)
	}
}

// stopAndReleasePod stops the worker, and then removes the finalizer of its pod.
func (w *Worker) stopAndReleasePod() {
	if !w.outlivesPod.Load() {
		w.stop()
	}
	w.patchPod(context.Background(), types.StrategicMergePatchType, map[string]any{"metadata": map[string]any{
		"uid": w.uid, "$deleteFromPrimitiveList/finalizers": []string{finalizer},
	}})
}

// stop terminates the process and waits for its end.
func (w *Worker) stop() {
	w.mu.Lock()
	w.ended = true
	process, server := w.process, w.server
	w.mu.Unlock()
	if process != nil {
		process.terminate()
	}
	if server != nil {
		_ = server.Close()
	}
	w.logError(os.RemoveAll(w.folder))
}

func (w *Worker) patchPod(ctx context.Context, how types.PatchType, change map[string]any, subresources ...string) {
	patch, err := json.Marshal(change)
	if err == nil {
		_, err = w.set.api.CoreV1().Pods(w.namespace).Patch(ctx, w.name, how, patch, metav1.PatchOptions{}, subresources...)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		w.set.log.Error("cannot patch pod", "pod", w.name, "error", err)
	}
}
