package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

func newReader(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func newPool(name string) *v1alpha1.WorkerPool {
	pool := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}}
	pool.Spec.Workers = v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: "w"}
	return pool
}

func newConfigMap(name string, labels map[string]string, data string) *corev1.ConfigMap {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}}
	if data != "" {
		object.Data = map[string]string{"config.yml": data}
	}
	return object
}

func TestConfigMapsOfAPool(t *testing.T) {
	ours, others := map[string]string{v1alpha1.LabelPool: "cameras"}, map[string]string{v1alpha1.LabelPool: "doors"}
	reader := newReader(t,
		newConfigMap("w-config", nil, ""), newConfigMap("w-config-w-10", ours, ""), newConfigMap("w-config-w-2", ours, ""),
		newConfigMap("w-config-w-3", others, ""), newConfigMap("jobs", ours, ""))
	for layout, want := range map[v1alpha1.ConfigLayout][]string{
		v1alpha1.LayoutShared: {"w-config"}, v1alpha1.LayoutPerWorker: {"w-config-w-2", "w-config-w-10"},
	} {
		pool := newPool("cameras")
		pool.Spec.Config.Layout = layout
		objects, err := ConfigMaps(t.Context(), reader, pool)
		var got []string
		for _, object := range objects {
			got = append(got, object.Name)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q; error %v", layout, got, want, err)
		}
	}
}

func TestConfigMapsOfOthersAreAProblem(t *testing.T) {
	owned := newConfigMap("w-config", nil, "")
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Certificate", Name: "web", UID: "uid", Controller: new(true)}}
	doors, gone := map[string]string{v1alpha1.LabelPool: "doors"}, map[string]string{v1alpha1.LabelPool: "gone"}
	for reason, c := range map[string]struct {
		object *corev1.ConfigMap
		adopt  v1alpha1.ConfigAdoption
		want   string
	}{
		"ours":                        {newConfigMap("w-config", map[string]string{v1alpha1.LabelPool: "cameras"}, "x"), "", ""},
		"another pool's":              {newConfigMap("w-config", doors, ""), v1alpha1.AdoptAlways, `belongs to WorkerPool "doors"`},
		"that of a pool that is gone": {newConfigMap("w-config", gone, ""), "", ""},
		"a controller's":              {owned, v1alpha1.AdoptAlways, `belongs to Certificate "web"`},
		"a user's, with content":      {newConfigMap("w-config", nil, "x"), "", "is not the operator's"},
		"a user's, to be adopted":     {newConfigMap("w-config", nil, "x"), v1alpha1.AdoptAlways, ""},
		"a user's, without content":   {newConfigMap("w-config", nil, ""), "", ""},
	} {
		pool := newPool("cameras")
		pool.Spec.Config.Adopt = c.adopt
		published, problem, err := Published(t.Context(), newReader(t, newPool("doors")), pool, []*corev1.ConfigMap{c.object},
			func(object *corev1.ConfigMap) *plan.ConfigMap { return plan.ParseConfigMap(object, pool.ConfigKey()) })
		switch {
		case err != nil || (problem != nil) != (c.want != ""):
			t.Errorf("%s: problem %v, error %v", reason, problem, err)
		case problem != nil && !strings.Contains(problem.Message, c.want):
			t.Errorf("%s: %q, want %q", reason, problem.Message, c.want)
		case problem == nil && len(published.ConfigMaps) != 1:
			t.Errorf("%s: its content is not read", reason)
		}
	}
}

func TestRevisionsOfAPool(t *testing.T) {
	data, err := codec.Revision{Version: 1}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	newRevision := func(name string, number int64, owner string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: name, Labels: map[string]string{v1alpha1.LabelPool: "cameras"},
				OwnerReferences: []metav1.OwnerReference{{Name: owner, UID: types.UID("uid-" + owner), Controller: new(true)}},
			},
			Data: runtime.RawExtension{Raw: data}, Revision: number,
		}
	}
	reader := newReader(t, newRevision("cameras-10", 10, "cameras"), newRevision("cameras-9", 9, "cameras"), newRevision("w-5f", 3, "w"),
		newRevision("forged", plan.MaxNumber, "cameras"))
	history, err := History(t.Context(), reader, newPool("cameras"))
	if err != nil || len(history) != 2 || history[0].Number != 9 || history[1].Number != 10 {
		t.Errorf("got %+v, %v", history, err)
	}
}

func TestOldestPoolHasTheWorkload(t *testing.T) {
	older, younger := newPool("cameras"), newPool("a-later-one")
	older.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	younger.CreationTimestamp = metav1.NewTime(time.Unix(2000, 0))
	other := newPool("of-another-workload")
	other.Spec.Workers.Name = "v"
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "w"}}
	reader := newReader(t, older, younger, other, set)
	for pool, want := range map[*v1alpha1.WorkerPool]v1alpha1.Reason{
		older: "", younger: v1alpha1.ReasonWorkloadTaken, other: v1alpha1.ReasonWorkloadNotFound,
	} {
		_, _, problem, err := FindWorkload(t.Context(), reader, pool)
		if err != nil || (problem == nil) != (want == "") || problem != nil && problem.Reason != want {
			t.Errorf("%s: problem %v, want %q; error %v", pool.Name, problem, want, err)
		}
	}
}
