package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	// unfinished is how many tasks wait or run at a time, at most.
	unfinished = 100
	// apiTimeout is for each request of this program: an API server that is suspended answers none.
	apiTimeout = 5 * time.Second
	// apiRetryDelay is how long after a failure a request is made again.
	apiRetryDelay = 300 * time.Millisecond
)

// Tasks submits work and follows it.
type Tasks struct {
	api     client.WithWatch
	journal *Journal
	random  *rand.Rand

	mu        sync.Mutex
	submitted int
	finished  map[types.UID]bool
	lastSeen  map[types.UID]observedTask
}

// Submit keeps agents busy until the context ends. Users then change their minds without delay, so that no task stays suspended.
func (t *Tasks) Submit(ctx context.Context) {
	var users sync.WaitGroup
	defer users.Wait()
	for ctx.Err() == nil {
		if t.Unfinished() >= unfinished {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		plan := drawPlan(t.random)
		name := t.submit(ctx, plan)
		users.Go(func() { t.interfere(ctx, name, plan.changes) })
	}
}

// submit creates one task, however long that takes, and returns its name.
func (t *Tasks) submit(ctx context.Context, plan taskPlan) (name string) {
	payload, err := json.Marshal(plan.order)
	if err != nil {
		panic(err)
	}
	t.mu.Lock()
	name = fmt.Sprintf("task-%05d", t.submitted)
	t.submitted++
	t.mu.Unlock()
	task := &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TaskSpec{
			SwarmRef: v1alpha1.SwarmReference{Name: swarm}, Payload: &apiextensionsv1.JSON{Raw: payload}, Timeouts: plan.limits.DeepCopy(),
		},
	}
	if *task.Spec.Timeouts == (v1alpha1.TaskTimeouts{}) {
		task.Spec.Timeouts = nil
	}
	t.journal.Write(Event{Kind: eventRequested, Task: name, Request: plan.creation()})
	// The task counts as submitted: it is created even when the run ends meanwhile.
	persist(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(t.api.Create(ctx, task.DeepCopy()))
	})
	return name
}

// interfere changes what is desired of a task, step by step.
func (t *Tasks) interfere(ctx context.Context, name string, changes []change) {
	task := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, next := range changes {
		pause(ctx, next.after)
		t.journal.Write(Event{Kind: eventRequested, Task: name, Request: &Request{Desired: next.desired}})
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"desired":%q}}`, next.desired))
		persist(context.WithoutCancel(ctx), func(ctx context.Context) error { return t.api.Patch(ctx, task.DeepCopy(), patch) })
	}
}

// persist repeats a request until it succeeds or the context ends.
func persist(ctx context.Context, request func(context.Context) error) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, apiTimeout)
		err := request(limited)
		cancel()
		if err == nil {
			return
		}
		pause(ctx, apiRetryDelay)
	}
}

// Unfinished is how many tasks have no final phase, as far as is known.
func (t *Tasks) Unfinished() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.submitted - len(t.finished)
}

// Submitted is how many tasks there are.
func (t *Tasks) Submitted() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.submitted
}

// WatchTasks writes down what the API server reports about tasks, until the context ends. It is the second witness, after the operators'
// proxies: an answer that the API server had no time to give is in neither of them.
func (t *Tasks) WatchTasks(ctx context.Context) {
	for ctx.Err() == nil {
		_ = t.watchOnce(ctx) // an API server that is away
		pause(ctx, apiRetryDelay)
	}
}

func (t *Tasks) watchOnce(ctx context.Context) error {
	list := &v1alpha1.TaskList{}
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := t.api.List(limited, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	for n := range list.Items {
		t.recordTask(&list.Items[n])
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	watching, err := t.api.Watch(ctx, &v1alpha1.TaskList{}, from, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	defer watching.Stop()
	for {
		select {
		case event, open := <-watching.ResultChan():
			task, isTask := event.Object.(*v1alpha1.Task)
			if !open || !isTask {
				return nil
			}
			t.recordTask(task)
		case <-time.After(3 * apiTimeout): // a connection to an API server that was killed may hang
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// recordTask writes down what is stored, if that is another thing than before.
func (t *Tasks) recordTask(task *v1alpha1.Task) {
	event := newStoredEvent(task, "watch")
	now := observedTask{epoch: event.Epoch, task: *event.Stored}
	now.task.Version = 0
	t.mu.Lock()
	unchanged := t.lastSeen[task.UID] == now
	t.lastSeen[task.UID] = now
	if task.Status.Phase.Final() {
		t.finished[task.UID] = true
	}
	t.mu.Unlock()
	if !unchanged {
		t.journal.Write(event)
	}
}

// An observedTask is what was seen last of a Task, without its version.
type observedTask struct {
	epoch int64
	task  StoredTask
}

// newStoredEvent is what the API server holds.
func newStoredEvent(task *v1alpha1.Task, witness string) Event {
	status := task.Status
	version, _ := strconv.ParseUint(task.ResourceVersion, 10, 64)
	recorded := &StoredTask{
		Version: version, Reason: status.Reason, Assigned: status.ActiveAttempts > 0,
		Retries: status.Retries, Reassignments: status.Reassignments, HandBacks: status.HandBacks,
	}
	if status.Phase.Final() {
		recorded.Phase = string(status.Phase)
	}
	if status.Result != nil {
		_ = json.Unmarshal(status.Result.Raw, &recorded.Result)
	}
	return Event{Kind: eventStored, Task: task.Name, UID: string(task.UID), Epoch: status.Epoch, Stored: recorded, Note: witness}
}
