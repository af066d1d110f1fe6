package swarm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

func newConfigMap(name string, change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: "uid-of-config"}}
	if change != nil {
		change(config)
	}
	return config
}

func TestObjectThatIsNotTheSwarmsIsLeftAlone(t *testing.T) {
	other := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web", Controller: new(true)}
	for reason, c := range map[string]struct {
		change func(*corev1.ConfigMap)
		says   string // empty: it is taken over
	}{
		"no controller": {nil, `ConfigMap "research-config" exists and does not belong to this Swarm: rename or delete it`},
		"another controller": {func(m *corev1.ConfigMap) { m.OwnerReferences = []metav1.OwnerReference{other} },
			`belongs to Deployment "web": delete it`},
		"another swarm's": {func(m *corev1.ConfigMap) { m.Labels = map[string]string{v1alpha1.LabelSwarm: "other"} },
			"swarm.io/swarm=research"},
		"an orphan's label": {func(m *corev1.ConfigMap) { m.Labels = map[string]string{v1alpha1.LabelSwarm: "research"} }, ""},
	} {
		t.Run(reason, func(t *testing.T) {
			r, e := newEnvironment(t, interceptor.Funcs{}, newSwarm(nil), newConfigMap("research-config", c.change))
			result, err := r.Reconcile(t.Context(), e.getSwarm(t))
			stored := &corev1.ConfigMap{}
			if missing := e.client.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "research-config"}, stored); missing != nil {
				t.Fatal(missing)
			}
			refused := result == kit.RequeueAfter(time.Minute, string(v1alpha1.ReasonNameTaken))
			if taken := len(stored.Data) > 0; taken != (c.says == "") || refused == taken || err != nil {
				t.Fatalf("taken: %v, result %+v, error: %v", taken, result, err)
			}
			degraded := meta.FindStatusCondition(e.getSwarm(t).Status.Conditions, v1alpha1.ConditionDegraded)
			if c.says != "" && (degraded.Reason != string(v1alpha1.ReasonNameTaken) || !strings.Contains(degraded.Message, c.says)) {
				t.Errorf("Degraded is %+v", degraded)
			}
		})
	}
}

// An Agent of the user is not taken over either. The other agents are not affected.
func TestAgentThatIsNotTheSwarmsIsLeftAlone(t *testing.T) {
	for reason, c := range map[string]struct {
		labels map[string]string
		says   string // empty: it is taken over
	}{
		"of a user":              {nil, `Agent "research-coder-0" exists and does not belong to this Swarm`},
		"of another swarm":       {map[string]string{v1alpha1.LabelSwarm: "other"}, "swarm.io/swarm=research"},
		"that lost its Swarm":    {map[string]string{v1alpha1.LabelSwarm: "research"}, ""},
		"that the swarm has not": {nil, ""},
	} {
		t.Run(reason, func(t *testing.T) {
			agent := &v1alpha1.Agent{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "research-coder-0", UID: "uid-of-agent", Labels: c.labels},
				Spec:       v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "research"}, Type: "coder", Slots: 99},
			}
			if reason == "that the swarm has not" {
				agent.Name = "foreign"
			}
			r, e := newEnvironment(t, interceptor.Funcs{}, newSwarm(nil), agent)
			result, err := r.Reconcile(t.Context(), e.getSwarm(t))
			if refused := result == kit.RequeueAfter(time.Minute, string(v1alpha1.ReasonNameTaken)); refused != (c.says != "") || err != nil {
				t.Fatalf("result %+v, error: %v", result, err)
			}
			stored := &v1alpha1.Agent{}
			if missing := e.client.Get(t.Context(), client.ObjectKeyFromObject(agent), stored); missing != nil {
				t.Fatal(missing)
			}
			if taken := metav1.GetControllerOf(stored) != nil; taken != (agent.Name == "research-coder-0" && c.says == "") {
				t.Errorf("owners %v, %d slots", stored.OwnerReferences, stored.Spec.Slots)
			}
			degraded := meta.FindStatusCondition(e.getSwarm(t).Status.Conditions, v1alpha1.ConditionDegraded)
			if c.says != "" && (degraded.Reason != string(v1alpha1.ReasonNameTaken) || !strings.Contains(degraded.Message, c.says)) {
				t.Errorf("Degraded is %+v", degraded)
			}
			if all, _ := e.listObjects(t); !slices.Contains(all, "*v1alpha1.Agent research-coder-1") {
				t.Errorf("made %v: the other agents go on", all)
			}
		})
	}
}

// rejectApply makes the API server refuse the StatefulSet of that name.
func rejectApply(name string, refusal error) interceptor.Funcs {
	return interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration,
		options ...client.ApplyOption) error {
		if named, ok := object.(interface{ GetName() string }); ok && named.GetName() == name {
			return refusal
		}
		return c.Apply(ctx, object, options...)
	}}
}

func TestRejectedWorkloadIsExplainedAndRetriedLater(t *testing.T) {
	kind := schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	long := strings.Repeat("wrong ", 10_000)
	for reason, refusal := range map[string]error{
		"invalid": apierrors.NewInvalid(kind, "research-coder",
			field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "a port is wrong")}),
		"bad request": apierrors.NewBadRequest("a port is wrong"),
		"two of a name": &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 500,
			Message: `failed to create typed patch object (demo/research-coder; apps/v1, Kind=StatefulSet): a port is wrong: duplicate entries for key [name="state"]`,
		}},
		"a long message": apierrors.NewBadRequest("a port is wrong " + long),
	} {
		t.Run(reason, func(t *testing.T) {
			r, e := newEnvironment(t, rejectApply("research-coder", refusal), newSwarm(nil))
			result, err := r.Reconcile(t.Context(), e.getSwarm(t))
			if err != nil || result != kit.RequeueAfter(time.Minute, string(v1alpha1.ReasonApplyFailed)) {
				t.Errorf("got %+v, %v", result, err)
			}
			degraded := meta.FindStatusCondition(e.getSwarm(t).Status.Conditions, v1alpha1.ConditionDegraded)
			if degraded == nil || degraded.Reason != string(v1alpha1.ReasonApplyFailed) || !strings.Contains(degraded.Message, "a port is wrong") {
				t.Errorf("Degraded is %.300v", degraded)
			}
			all, _ := e.listObjects(t)
			if slices.Contains(all, "*v1.StatefulSet research-coder") || !slices.Contains(all, "*v1.StatefulSet research-analyst") {
				t.Errorf("made %v: the other types go on", all)
			}
		})
	}
}

func TestNothingIsAppliedToWhatCannotBeRead(t *testing.T) {
	r, e := newEnvironment(t, interceptor.Funcs{}, newSwarm(nil))
	refused := errors.New("refused")
	r.apiReader = errorReader{refused}
	if _, err := r.Reconcile(t.Context(), e.getSwarm(t)); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if all, _ := e.listObjects(t); len(all) > 0 {
		t.Errorf("made %v", all)
	}
}

type errorReader struct{ err error }

func (u errorReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return u.err
}
func (u errorReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return u.err
}
