package workerpool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/ack"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// environment is an API server with an elected leader, and the reconciler under test.
type environment struct {
	manager.Manager
	recorder.EventRecorder
	*reconciler
	builder *fake.ClientBuilder
	writes  []string // "verb Kind name", status writes excluded
	events  []string // events
	term    int64

	uid          types.UID // of the next created object; "" to derive it from the name
	refuseStatus error
}

func (e *environment) GetClient() client.Client                       { return e.client }
func (e *environment) GetEventRecorder(string) recorder.EventRecorder { return e }
func (e *environment) GetFieldIndexer() client.FieldIndexer           { return e }
func (e *environment) Term() int64                                    { return e.term }

//nolint:revive // the recorder's interface has that many arguments
func (e *environment) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	e.events = append(e.events, reason+": "+fmt.Sprintf(note, args...))
}

// IndexField implements client.FieldIndexer.
func (e *environment) IndexField(_ context.Context, kind client.Object, field string, extract client.IndexerFunc) error {
	e.builder.WithIndex(kind, field, extract)
	return nil
}

func (e *environment) recordWrite(verb string, object client.Object) {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")
	e.writes = append(e.writes, verb+" "+kind+" "+object.GetName())
}

// hooks record writes, and return the error of fails before a read of a kind.
func (e *environment) hooks(fails func(kind string) error) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := fails(fmt.Sprintf("%T", object)); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := fails(fmt.Sprintf("%T", list)); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			e.recordWrite("create", object)
			object.SetUID(cmp.Or(e.uid, types.UID("uid-"+object.GetName())))
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			e.recordWrite("update", object)
			return c.Update(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			e.recordWrite("patch", object)
			return c.Patch(ctx, object, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			e.recordWrite("delete", object)
			return c.Delete(ctx, object, options...)
		},
		SubResourcePatch: e.patchSubResource,
	}
}

// patchSubResource records a change of scale, which the fake client cannot apply.
//
//nolint:revive // the interceptor has that many arguments
func (e *environment) patchSubResource(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch,
	options ...client.SubResourcePatchOption) error {
	switch {
	case sub == "status" && e.refuseStatus != nil:
		return e.refuseStatus
	case sub != "scale":
		return c.SubResource(sub).Patch(ctx, object, patch, options...)
	}
	text, err := patch.Data(object)
	e.recordWrite("scale", object)
	e.writes = append(e.writes, string(text))
	return err
}

func newEnvironment(t *testing.T, objects ...client.Object) *environment {
	t.Helper()
	return failingEnvironment(t, func(string) error { return nil }, objects...)
}

func failingEnvironment(t *testing.T, fails func(kind string) error, objects ...client.Object) *environment {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme),
		coordinationv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	e := &environment{term: 1}
	e.builder = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.WorkerPool{}).
		WithInterceptorFuncs(e.hooks(fails))
	if err := addIndexes(t.Context(), &kit.Operator{Manager: e}); err != nil {
		t.Fatal(err)
	}
	e.reconciler = &reconciler{leadership: e, poller: ack.New(&kit.Trigger{}), revisionLock: newRevisionLock(),
		states: map[types.NamespacedName]*localState{}}
	e.client = e.builder.Build()
	e.apiReader, e.workloadPods = e.client, e.podsOf
	e.status = kit.NewStatus[*v1alpha1.WorkerPool](&kit.Operator{Manager: e}, controllerName)
	return e
}

// podsOf implements workloads.PodLister with the current pods of the API server.
func (e *environment) podsOf(ctx context.Context, wanted workload.Key) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := e.client.List(ctx, list, client.InNamespace(wanted.Namespace))
	var pods []*corev1.Pod
	for n := range list.Items {
		if key, found := workload.OwnerOf(&list.Items[n]); found && key == wanted {
			pods = append(pods, &list.Items[n])
		}
	}
	return pods, err
}

// reconcilePool reconciles the stored pool, and returns the stored result.
func (e *environment) reconcilePool(t *testing.T) *v1alpha1.WorkerPool {
	t.Helper()
	if _, err := e.Reconcile(t.Context(), e.getPool(t)); err != nil {
		t.Fatal(err)
	}
	return e.getPool(t)
}

func (e *environment) getPool(t *testing.T) *v1alpha1.WorkerPool {
	t.Helper()
	pool := &v1alpha1.WorkerPool{}
	e.get(t, "pool", pool)
	return pool
}

func (e *environment) get(t *testing.T, name string, object client.Object) {
	t.Helper()
	if err := e.client.Get(t.Context(), client.ObjectKey{Namespace: "sim", Name: name}, object); err != nil {
		t.Fatal(err)
	}
}

// jobsOf returns the published lists by worker.
func (e *environment) jobsOf(t *testing.T) map[string][]string {
	t.Helper()
	config := &corev1.ConfigMap{}
	e.get(t, "w-config", config)
	file, err := codec.ParseFile(config.Data["config.yml"])
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string][]string{}
	for _, entry := range file.Workers {
		jobs[entry.Worker] = entry.Jobs
	}
	return jobs
}

// hasWritten reports whether any write begins with this text.
func (e *environment) hasWritten(prefix string) bool {
	return slices.ContainsFunc(e.writes, func(write string) bool { return strings.HasPrefix(write, prefix) })
}

// newPool returns a pool with four jobs. Its workers cannot be asked; they are trusted to load their lists in time.
func newPool() *v1alpha1.WorkerPool {
	pool := newFakeCluster(4, 0).pool
	pool.Spec.Refresh.Policy, pool.Spec.Refresh.Acknowledge = v1alpha1.RefreshHotReload, nil
	return pool
}

// newWorkers returns a StatefulSet with so many ready pods.
func newWorkers(count int) []client.Object {
	labels := map[string]string{"app": "w"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "w", UID: "uid-w"}}
	set.Spec.Replicas, set.Spec.Selector = new(int32(count)), &metav1.LabelSelector{MatchLabels: labels}
	objects := []client.Object{set}
	for n := range count {
		pod := controlledBy("StatefulSet", "w", set.UID, "")
		pod.Name, pod.UID, pod.Labels = fmt.Sprintf("w-%d", n), types.UID(fmt.Sprintf("uid-w-%d", n)), labels
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		objects = append(objects, pod)
	}
	return objects
}

// conditionOf returns the status and the reason of a condition.
func conditionOf(pool *v1alpha1.WorkerPool, kind string) string {
	found := meta.FindStatusCondition(pool.Status.Conditions, kind)
	if found == nil {
		return ""
	}
	return string(found.Status) + " " + found.Reason
}
