package swarm

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func configNamed(name string, change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: "uid-of-config"}}
	if change != nil {
		change(made)
	}
	return made
}

func TestObjectThatIsNotTheSwarmsIsLeftAlone(t *testing.T) {
	other := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web", Controller: new(true)}
	for reason, c := range map[string]struct {
		change func(*corev1.ConfigMap)
		says   string // empty: it is taken
	}{
		"no controller":      {nil, `ConfigMap "research-config" exists and does not belong to this Swarm: rename or delete it`},
		"another controller": {func(m *corev1.ConfigMap) { m.OwnerReferences = []metav1.OwnerReference{other} }, `belongs to Deployment "web": delete it`},
		"another swarm's":    {func(m *corev1.ConfigMap) { m.Labels = map[string]string{v1alpha1.LabelSwarm: "other"} }, "swarm.io/swarm=research"},
		"an orphan's label":  {func(m *corev1.ConfigMap) { m.Labels = map[string]string{v1alpha1.LabelSwarm: "research"} }, ""},
	} {
		t.Run(reason, func(t *testing.T) {
			r, e := newEnvironment(t, interceptor.Funcs{}, research(nil), configNamed("research-config", c.change))
			_, err := r.Reconcile(t.Context(), e.read(t))
			stored := &corev1.ConfigMap{}
			if missing := e.cluster.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "research-config"}, stored); missing != nil {
				t.Fatal(missing)
			}
			if taken := len(stored.Data) > 0; taken != (c.says == "") || (err == nil) != taken {
				t.Fatalf("taken: %v, error: %v", taken, err)
			}
			degraded := meta.FindStatusCondition(e.read(t).Status.Conditions, v1alpha1.ConditionDegraded)
			if c.says != "" && (degraded.Reason != string(v1alpha1.ReasonNameTaken) || !strings.Contains(degraded.Message, c.says)) {
				t.Errorf("Degraded is %+v", degraded)
			}
		})
	}
}

func TestNothingIsAppliedToWhatCannotBeRead(t *testing.T) {
	r, e := newEnvironment(t, interceptor.Funcs{}, research(nil))
	refused := errors.New("refused")
	r.live = unreadable{refused}
	if _, err := r.Reconcile(t.Context(), e.read(t)); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if all, _ := e.state(t); len(all) > 0 {
		t.Errorf("made %v", all)
	}
}

type unreadable struct{ err error }

func (u unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return u.err
}
func (u unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return u.err
}
