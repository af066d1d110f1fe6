package workerpool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

var (
	errRefused = errors.New("refused")
	errMissing = apierrors.NewNotFound(corev1.Resource("pods"), "w")
	errAnother = apierrors.NewConflict(corev1.Resource("pods"), "w", errors.New("another UID"))
	errBudget  = apierrors.NewTooManyRequests("the budget does not allow it", 10)
)

// recordingClient is a cluster that records writes in order, and responds by the name of the object.
type recordingClient struct {
	client.Client
	errs  map[string]error
	wrote []string
	uids  []types.UID // of deletions and evictions
}

func (w *recordingClient) record(what string, object client.Object) error {
	w.wrote = append(w.wrote, what+" "+object.GetName())
	return w.errs[object.GetName()]
}

func (w *recordingClient) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return w.record("create", object)
}

func (w *recordingClient) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return w.record("patch", object)
}

func (w *recordingClient) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	w.uids = append(w.uids, *(&client.DeleteOptions{}).ApplyOptions(options).Preconditions.UID)
	return w.record("delete", object)
}

func (w *recordingClient) SubResource(string) client.SubResourceClient {
	return evictionClient{writer: w}
}

type evictionClient struct {
	client.SubResourceClient
	writer *recordingClient
}

func (e evictionClient) Create(_ context.Context, object, body client.Object, _ ...client.SubResourceCreateOption) error {
	e.writer.uids = append(e.writer.uids, *body.(*policyv1.Eviction).DeleteOptions.Preconditions.UID)
	return e.writer.record("evict", object)
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: name, UID: types.UID("uid-" + name)}}
}

func TestEvictionsNameTheirPodAndRespectBudgets(t *testing.T) {
	recorder := &recordingClient{errs: map[string]error{"w-1": errBudget, "w-2": errMissing, "w-3": errAnother, "w-5": errRefused}}
	var evictions []plan.Eviction
	for _, name := range []string{"w-0", "w-1", "w-2", "w-3", "w-4", "w-5", "w-6"} {
		evictions = append(evictions, plan.Eviction{Pod: podNamed(name)})
	}
	gone, err := (&reconciler{client: recorder}).evictPods(t.Context(), evictions)
	if !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
	if len(gone) != 2 || gone[0].Pod.Name != "w-0" || gone[1].Pod.Name != "w-4" {
		t.Errorf("gone %v: only the first and the fifth go", gone)
	}
	if len(recorder.uids) != 6 || recorder.uids[0] != "uid-w-0" {
		t.Errorf("by UID %v: no pod is evicted after a failure", recorder.uids)
	}
}

func TestRevisionsAreDiscardedByTheirUID(t *testing.T) {
	for reason, c := range map[string]struct {
		answer error
		fails  bool
	}{
		"deleted": {nil, false}, "already gone": {errMissing, false}, "another of that name": {errAnother, false}, "refused": {errRefused, true},
	} {
		recorder := &recordingClient{errs: map[string]error{"pool-3": c.answer}}
		err := (&reconciler{client: recorder}).deleteRevision(t.Context(), &v1alpha1.WorkerPool{},
			plan.StoredRevision{Number: 3, Name: "pool-3", UID: "uid-3"})
		if (err != nil) != c.fails || !slices.Equal(recorder.uids, []types.UID{"uid-3"}) {
			t.Errorf("%s: %v, by UID %v", reason, err, recorder.uids)
		}
	}
}

// A leader killed between two writes must not have published anything that is in no revision.
func TestNothingFollowsARevisionThatIsNotKept(t *testing.T) {
	pool := newFakeCluster(1, 1).pool
	whole := func() *plan.Plan {
		return &plan.Plan{
			NewRevision: &plan.StoredRevision{Number: 1, Data: codec.Revision{Version: 1}}, Nudges: []plan.Nudge{{Pod: podNamed("w-0")}},
			ObsoleteRevisions: []plan.StoredRevision{{Number: 0, Name: "pool-0"}}, Evictions: []plan.Eviction{{Pod: podNamed("w-1")}},
		}
	}
	for failing, want := range map[string]string{
		"pool-1": "create pool-1",
		"w-0":    "create pool-1, patch w-0",
		"pool-0": "create pool-1, patch w-0, delete pool-0",
		"":       "create pool-1, patch w-0, delete pool-0, evict w-1",
	} {
		recorder := &recordingClient{errs: map[string]error{failing: errRefused}}
		state := newLocalState("pool")
		err := (&reconciler{client: recorder}).apply(t.Context(), pool, whole(), state)
		if got := strings.Join(recorder.wrote, ", "); got != want || (err == nil) != (failing == "") {
			t.Errorf("%q fails: wrote %q, want %q; %v", failing, got, want, err)
		}
		if remembered := state.newestRevision != nil; remembered != (failing != "pool-1") {
			t.Errorf("%q fails: the revision is remembered: %t", failing, remembered)
		}
	}
}

func TestRevisionThatIsThereAlreadyIsAConflict(t *testing.T) {
	for reason, c := range map[string]struct {
		err  error
		want bool
	}{
		"exists": {apierrors.NewAlreadyExists(corev1.Resource("configmaps"), "c"), true}, "gone": {errMissing, true}, "refused": {errRefused,
			false},
	} {
		if got := apierrors.IsConflict(asConflict(c.err, "c")); got != c.want {
			t.Errorf("%s: a conflict: %t", reason, got)
		}
	}
}
