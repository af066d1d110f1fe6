package task

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/payload"
	"github.com/swarm-io/swarm-operator/kit"
)

var (
	errServer       = errors.New("the API server failed")
	errResponseLost = errors.New("the answer of the API server was lost")
)

// Faults are the faults in the writes of all leaders. Each counts down with every write.
type faults struct {
	mu                    sync.Mutex
	failBefore, failAfter int                       // how many of the next writes fail before, or after, they are stored
	beforeStore           func(task *v1alpha1.Task) // called before a write is stored
	rejects               func(*v1alpha1.TaskStatus) bool
	writeDelay            time.Duration // duration of a write, both ways
}

func (f *faults) countDown(count *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *count <= 0 {
		return false
	}
	*count--
	return true
}

// setBeforeStore sets a function that runs while a write is in progress.
func (f *faults) setBeforeStore(hook func(task *v1alpha1.Task)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beforeStore = hook
}

func (f *faults) beforeStoreHook() func(*v1alpha1.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.beforeStore
}

func (f *faults) delay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeDelay
}

// A cache is a leader's view of the store, with a delay.
type cache struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*v1alpha1.Task
	paused  chan struct{} // not nil while the cache receives nothing
}

func (c *cache) get(name types.NamespacedName) *v1alpha1.Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object := c.objects[name]; object != nil {
		return object.DeepCopy()
	}
	return nil
}

// all lists the objects in the cache.
func (c *cache) all() []v1alpha1.Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]v1alpha1.Task, 0, len(c.objects))
	for _, object := range c.objects {
		list = append(list, *object.DeepCopy())
	}
	return list
}

func (c *cache) apply(change change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if change.after != nil {
		stored := change.after.DeepCopy()
		payload.Drop(stored) // as the operator's cache does
		c.objects[namespacedName(change.after.Name)] = stored
	} else {
		delete(c.objects, namespacedName(change.before.Name))
	}
}

// pause stops updates of the cache until release.
func (c *cache) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused == nil {
		c.paused = make(chan struct{})
	}
}

func (c *cache) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused != nil {
		close(c.paused)
		c.paused = nil
	}
}

func (c *cache) waitUntilResumed(ctx context.Context) {
	c.mu.Lock()
	held := c.paused
	c.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
}

// A storeReader reads past the cache.
type storeReader struct {
	client.Reader
	store *store
	reads *atomic.Int32
}

func (r storeReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.reads.Add(1)
	stored := r.store.get(key)
	if stored == nil {
		return apierrors.NewNotFound(tasksResource, key.Name)
	}
	stored.DeepCopyInto(object.(*v1alpha1.Task))
	return nil
}

// A stubClient is a leader's client: it reads the cache and writes to the store while it leads.
type stubClient struct {
	client.Client
	leader *leader
}

func (c *stubClient) Scheme() *runtime.Scheme { return scheme }

func (c *stubClient) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if swarm, ok := object.(*v1alpha1.Swarm); ok && key.Name == swarmName {
		swarm.Namespace, swarm.Name = key.Namespace, key.Name
		return nil
	}
	return apierrors.NewNotFound(tasksResource, key.Name)
}

func (c *stubClient) Status() client.SubResourceWriter { return &stubStatus{leader: c.leader} }

type stubStatus struct {
	client.SubResourceWriter
	leader *leader
}

// Patch stores the status if the leader leads, both before and after the write.
func (s *stubStatus) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	task, faults := object.(*v1alpha1.Task), &s.leader.sim.faults
	data, err := patch.Data(task)
	if err != nil {
		return err
	}
	var meta struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return err
	}
	time.Sleep(faults.delay())
	if storing := faults.beforeStoreHook(); storing != nil {
		storing(task)
	}
	switch {
	case !s.leader.isLeader():
		return kit.ErrNotLeading
	case faults.countDown(&faults.failBefore):
		return errServer
	}
	if err := faults.rejection(task); err != nil {
		return err
	}
	stored, err := s.leader.sim.store.updateStatus(task, meta.Metadata.ResourceVersion)
	if err != nil {
		if apierrors.IsBadRequest(err) {
			s.leader.sim.problem("write refused: %v", err)
		}
		return err
	}
	time.Sleep(faults.delay())
	if faults.countDown(&faults.failAfter) {
		return errResponseLost
	}
	stored.DeepCopyInto(task)
	return nil
}

var scheme = func() *runtime.Scheme {
	known := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(known))
	return known
}()

// A stubManager is the part of a manager that the status writer needs.
type stubManager struct {
	manager.Manager
	client client.Client
	events *events
}

func (m stubManager) GetClient() client.Client                       { return m.client }
func (m stubManager) GetEventRecorder(string) recorder.EventRecorder { return m.events }

// events counts the events that leaders have sent, by object and reason.
type events struct {
	recorder.EventRecorder
	mu   sync.Mutex
	sent map[string]int
}

//nolint:revive // the recorder's interface has that many arguments
func (e *events) Eventf(about, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent[about.(*corev1.ObjectReference).Name+" "+reason]++
}

func (e *events) count(name string, reason v1alpha1.Reason) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent[name+" "+string(reason)]
}
