package gang

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

// A Worker is the worker of one pod. The faults that it was given end with the pod.
type Worker struct {
	gang            *Gang
	namespace, name string
	uid             types.UID
	config          string // the ConfigMap that the pod mounts
	home            string // the folder with its two files
	leaving         sync.Once
	fragile         atomic.Bool // it dies after the next job that it stops
	outlives        atomic.Bool // its pod may go without it
	severed         atomic.Bool // it cannot reach the API server
	lease           int         // seconds of its Lease, 0 for none

	mu       sync.Mutex
	over     bool
	listener net.Listener // at the pod's address
	server   *http.Server
	process  *process
	volume   volume
	floor    string // the pod's annotation
	mute     bool
	lie      func(*Answer)
}

func newWorker(g *Gang, pod *corev1.Pod) *Worker {
	w := &Worker{gang: g, namespace: pod.Namespace, name: pod.Name, uid: pod.UID, home: filepath.Join(g.folder, string(pod.UID)), floor: asked(pod)}
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap != nil {
			w.config = volume.ConfigMap.Name
		}
	}
	w.lease, _ = strconv.Atoi(pod.Annotations[Lease]) // none is 0
	w.volume.home = w.home
	return w
}

// asked is the version that the pod's annotation asks for.
func asked(pod *corev1.Pod) string { return pod.Annotations[v1alpha1.AnnotationConfigVersion] }

// begin is what the kubelet does: it mounts the files, starts the process and sets the pod's address.
func (w *Worker) begin(ctx context.Context) {
	if err := w.mount(ctx); err != nil {
		w.gang.log.Error("a worker could not begin", "pod", w.name, "error", err)
		return
	}
	address := w.Address()
	if address == "" {
		return // the pod is being deleted already
	}
	status := map[string]any{"podIP": address, "podIPs": []map[string]string{{"ip": address}}}
	w.patch(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{"uid": w.uid}, "status": status}, "status")
}

func (w *Worker) mount(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil
	}
	if err := os.Mkdir(w.home, 0o700); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	list, err := w.gang.api.CoreV1().ConfigMaps(w.namespace).Get(ctx, w.config, metav1.GetOptions{})
	if err == nil {
		err = w.volume.bring(list.Data[configKey])
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mount ConfigMap %q: %w", w.config, err)
	}
	if err := w.volume.nudge(w.floor); err != nil {
		return err
	}
	if w.listener, err = somewhere(ctx); err != nil {
		return err
	}
	w.server = &http.Server{Handler: http.HandlerFunc(w.answer), ReadHeaderTimeout: patience}
	server, listener := w.server, w.listener
	w.gang.work.Go(func() { _ = server.Serve(listener) })
	w.process, err = w.spawn(ctx)
	return err
}

// somewhere listens on an unused address of this machine.
func somewhere(ctx context.Context) (net.Listener, error) {
	const attempts = 100
	var network net.ListenConfig
	var problem error
	for range attempts {
		ip := net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
		listener, err := network.Listen(ctx, "tcp", net.JoinHostPort(ip.String(), strconv.Itoa(Port)))
		if err == nil {
			return listener, nil
		}
		problem = err
	}
	return nil, fmt.Errorf("find an address for a pod: %w", problem)
}

// Address is that of the pod.
func (w *Worker) Address() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener == nil {
		return ""
	}
	return w.listener.Addr().(*net.TCPAddr).IP.String()
}

func (w *Worker) runs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.process != nil && !w.over
}

// nudge brings the annotation, and what it asks for.
func (w *Worker) nudge(version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.floor = version
	if w.process != nil && !w.over {
		w.report(w.volume.nudge(version))
	}
}

// offer has a list that a nudge may bring.
func (w *Worker) offer(list string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil && !w.over {
		w.report(w.volume.offer(list))
	}
}

func (w *Worker) report(err error) {
	if err != nil {
		w.gang.log.Error("a worker has no files", "pod", w.name, "error", err)
	}
}

// leave ends the worker, and then lets its pod go.
func (w *Worker) leave() {
	if !w.outlives.Load() {
		w.end()
	}
	w.patch(context.Background(), types.StrategicMergePatchType, map[string]any{"metadata": map[string]any{
		"uid": w.uid, "$deleteFromPrimitiveList/finalizers": []string{finalizer},
	}})
}

// end is SIGTERM, and the end of the process.
func (w *Worker) end() {
	w.mu.Lock()
	w.over = true
	process, server := w.process, w.server
	w.mu.Unlock()
	if process != nil {
		process.stop()
	}
	if server != nil {
		_ = server.Close()
	}
	w.report(os.RemoveAll(w.home))
}

func (w *Worker) patch(ctx context.Context, how types.PatchType, change map[string]any, subresources ...string) {
	patch, err := json.Marshal(change)
	if err == nil {
		_, err = w.gang.api.CoreV1().Pods(w.namespace).Patch(ctx, w.name, how, patch, metav1.PatchOptions{}, subresources...)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		w.gang.log.Error("a pod was not changed", "pod", w.name, "error", err)
	}
}
