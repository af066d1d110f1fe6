package admission

import (
	"context"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

var spreading = map[string]string{"swarm.io/spread": "enabled", "swarm.io/spot-percentage": "60"}

func deployment(in string, annotations map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "web", Annotations: annotations}}
}

func statefulSet(in string, annotations map[string]string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "db", Annotations: annotations}}
}

// tenant returns a namespace in scope.
func tenant(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "ours"}}}
}

func foreign(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// spread returns the configuration with a spread webhook, as installed and with a CA bundle.
func spread() *admissionv1.MutatingWebhookConfiguration {
	made := configuration()
	made.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"other": "selector"}}
	made.Webhooks = append(made.Webhooks, admissionv1.MutatingWebhook{
		Name: SpreadWebhook, NamespaceSelector: &metav1.LabelSelector{}, ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte("ca")},
		MatchConditions: []admissionv1.MatchCondition{{Name: "pods", Expression: "true"}},
	})
	return made
}

// A mapmaker is a coverer with an in-memory cluster that counts patches.
type mapmaker struct {
	coverer
	patches int
}

func newMapmaker(objects ...client.Object) *mapmaker {
	m := &mapmaker{}
	m.client = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			m.patches++
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	m.coverage = Coverage{
		Reader: m.client, Settings: survey.Settings{Prefix: "swarm.io/"}, Own: "swarm-system",
		Scope: kit.NewScope(labels.SelectorFromSet(labels.Set{"team": "ours"})),
	}
	return m
}

// look reconciles the configuration and returns the spread webhook.
func (m *mapmaker) look(t *testing.T) *admissionv1.MutatingWebhook {
	t.Helper()
	if _, err := m.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	return spreadOf(m.stored(t))
}

func (m *mapmaker) stored(t *testing.T) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	found := &admissionv1.MutatingWebhookConfiguration{}
	if err := m.client.Get(t.Context(), request.NamespacedName, found); err != nil {
		t.Fatal(err)
	}
	return found
}

// about returns the namespaces that a webhook covers.
func about(hook *admissionv1.MutatingWebhook) []string {
	return hook.NamespaceSelector.MatchExpressions[0].Values
}

func TestNamespacesWithManagedWorkloadsAreCovered(t *testing.T) {
	only := map[string]string{"swarm.io/spread": "enabled"}
	numbers := map[string]string{"swarm.io/spot-percentage": "60"}
	wrong := map[string]string{"swarm.io/spread": "enabled", "swarm.io/spot-percentage": "a lot"}
	for _, c := range []struct {
		reason string
		world  []client.Object
		want   []string
	}{
		{"nothing", nil, []string{nowhere}},
		{"nothing that is managed", []client.Object{tenant("a"), deployment("a", nil), statefulSet("a", nil)}, []string{nowhere}},
		{"a Deployment", []client.Object{tenant("a"), deployment("a", spreading)}, []string{"a"}},
		{"a StatefulSet", []client.Object{tenant("a"), statefulSet("a", spreading)}, []string{"a"}},
		{"several, in order and each once", []client.Object{tenant("c"), tenant("a"), tenant("b"), deployment("c", spreading), deployment("a", spreading), statefulSet("a", spreading), deployment("b", nil)}, []string{"a", "c"}},
		{"enabled without numbers", []client.Object{tenant("a"), deployment("a", only)}, []string{nowhere}},
		{"numbers without enablement", []client.Object{tenant("a"), deployment("a", numbers)}, []string{nowhere}},
		{"a number that is none", []client.Object{tenant("a"), deployment("a", wrong)}, []string{"a"}},
		{"out of scope", []client.Object{foreign("a"), deployment("a", spreading), tenant("b"), deployment("b", spreading)}, []string{"b"}},
		{"a namespace that is not known yet", []client.Object{deployment("a", spreading)}, []string{nowhere}},
		{"the cluster's and the operator's own", []client.Object{tenant("kube-system"), tenant("kube-flannel"), tenant("swarm-system"), deployment("kube-system", spreading), deployment("kube-flannel", spreading), statefulSet("swarm-system", spreading)}, []string{nowhere}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			m := newMapmaker(append(c.world, spread())...)
			hook := m.look(t)
			if !slices.Equal(about(hook), c.want) || len(hook.Rules) != 1 {
				t.Errorf("asked about %v by %d rules", about(hook), len(hook.Rules))
			}
			if m.look(t); m.patches != 1 {
				t.Errorf("%d patches", m.patches)
			}
		})
	}
}

func TestCoverageFollowsTheWorld(t *testing.T) {
	m := newMapmaker(spread(), tenant("a"), tenant("b"), deployment("a", spreading))
	for _, step := range []struct {
		reason string
		change func() error
		want   []string
	}{
		{"as it is", func() error { return nil }, []string{"a"}},
		{"one more", func() error { return m.client.Create(t.Context(), statefulSet("b", spreading)) }, []string{"a", "b"}},
		{"one is gone", func() error { return m.client.Delete(t.Context(), deployment("a", nil)) }, []string{"b"}},
		{"out of scope", func() error { return m.client.Update(t.Context(), foreign("b")) }, []string{nowhere}},
		{"and in again", func() error { return m.client.Update(t.Context(), tenant("b")) }, []string{"b"}},
		{"another client restored it", func() error {
			again := spread()
			again.ResourceVersion = m.stored(t).ResourceVersion
			return m.client.Update(t.Context(), again)
		}, []string{"b"}},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if got := about(m.look(t)); !slices.Equal(got, step.want) {
			t.Errorf("%s: asked about %v", step.reason, got)
		}
	}
}

func TestOtherWebhooksAreLeftAlone(t *testing.T) {
	m := newMapmaker(spread(), tenant("a"), deployment("a", spreading))
	m.look(t)
	got, was := m.stored(t).Webhooks, spread().Webhooks
	for n := range was[:2] {
		if got[n].NamespaceSelector.String() != was[n].NamespaceSelector.String() || len(got[n].Rules) > 0 {
			t.Errorf("%s is asked about %v by %v", got[n].Name, got[n].NamespaceSelector, got[n].Rules)
		}
	}
	if hook := got[2]; string(hook.ClientConfig.CABundle) != "ca" || len(hook.MatchConditions) != 1 {
		t.Errorf("something else changed: %+v", hook)
	}
}

func TestConfigurationWithoutSpreadStaysAsItIs(t *testing.T) {
	m := newMapmaker(configuration(), tenant("a"), deployment("a", spreading))
	if m.look(t); m.patches > 0 {
		t.Errorf("%d patches", m.patches)
	}
	if _, never := m.coverage.Covers(t.Context(), "a"); !strings.Contains(never, "install it") {
		t.Errorf("never: %q", never)
	}
}

func TestNobodyIsAskedWhereNothingIsMoved(t *testing.T) {
	for reason, change := range map[string]func(*Coverage){
		"read only":         func(c *Coverage) { c.Settings.ReadOnly = true },
		"no webhook at all": func(c *Coverage) { c.Off = "webhook.enabled is false" },
	} {
		m := newMapmaker(spread(), tenant("a"), deployment("a", spreading))
		m.look(t)
		change(&m.coverage)
		if got := about(m.look(t)); !slices.Equal(got, []string{nowhere}) {
			t.Errorf("%s: asked about %v", reason, got)
		}
		if covered, never := m.coverage.Covers(t.Context(), "a"); covered || never != m.coverage.Off {
			t.Errorf("%s: covered %t, never %q", reason, covered, never)
		}
	}
}

func TestCoverageIsWhatTheConfigurationSays(t *testing.T) {
	m := newMapmaker(spread(), tenant("a"), tenant("b"), tenant("kube-system"), deployment("a", spreading))
	if covered, never := m.coverage.Covers(t.Context(), "a"); covered || never != "" {
		t.Errorf("as installed: covered %t, never %q", covered, never)
	}
	m.look(t)
	for _, c := range []struct {
		namespace string
		covered   bool
		never     string
	}{
		{"a", true, ""},
		{"b", false, ""},
		{"kube-system", false, "the cluster's own"},
		{"kube-flannel", false, "the cluster's own"},
		{"swarm-system", false, "the operator's own"},
	} {
		if covered, never := m.coverage.Covers(t.Context(), c.namespace); covered != c.covered || !strings.Contains(never, c.never) || (never == "") != (c.never == "") {
			t.Errorf("%s: covered %t, never %q", c.namespace, covered, never)
		}
	}
	unknown := m.stored(t)
	spreadOf(unknown).ClientConfig.CABundle = nil
	if err := m.client.Update(t.Context(), unknown); err != nil {
		t.Fatal(err)
	}
	if covered, never := m.coverage.Covers(t.Context(), "a"); covered || never != "" {
		t.Errorf("the API server does not know us yet: covered %t, never %q", covered, never)
	}
}

func TestWhatWakesTheCoverage(t *testing.T) {
	turns := newMapmaker().coverage.turns()
	update := func(before, after map[string]string) bool {
		changed := deployment("a", after)
		changed.Status.ReadyReplicas, changed.ResourceVersion = 3, "2"
		return turns.Update(event.UpdateEvent{ObjectOld: deployment("a", before), ObjectNew: changed})
	}
	more := map[string]string{"swarm.io/spread": "enabled", "swarm.io/spot-percentage": "10", "swarm.io/min-on-demand": "1"}
	for reason, c := range map[string]struct{ got, want bool }{
		"an unmanaged one is made":          {turns.Create(event.CreateEvent{Object: deployment("a", nil)}), false},
		"a managed one is made":             {turns.Create(event.CreateEvent{Object: statefulSet("a", spreading)}), true},
		"an unmanaged one goes":             {turns.Delete(event.DeleteEvent{Object: statefulSet("a", nil)}), false},
		"a managed one goes":                {turns.Delete(event.DeleteEvent{Object: deployment("a", spreading)}), true},
		"the status of an unmanaged one":    {update(nil, nil), false},
		"the status of a managed one":       {update(spreading, spreading), false},
		"another percentage":                {update(spreading, more), false},
		"one begins to be managed":          {update(nil, spreading), true},
		"one ceases to be":                  {update(spreading, nil), true},
		"a namespace is seen":               {relabelled().Create(event.CreateEvent{Object: tenant("a")}), true},
		"a namespace has other labels":      {relabelled().Update(event.UpdateEvent{ObjectOld: foreign("a"), ObjectNew: tenant("a")}), true},
		"a namespace changes in other ways": {relabelled().Update(event.UpdateEvent{ObjectOld: tenant("a"), ObjectNew: tenant("a")}), false},
		"a namespace goes":                  {relabelled().Delete(event.DeleteEvent{Object: tenant("a")}), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: woken %t", reason, c.got)
		}
	}
}

func TestNobodyIsCoveredBeforeTheWebhookIsFound(t *testing.T) {
	m := newMapmaker(spread(), tenant("a"), deployment("a", spreading))
	m.look(t)
	for _, open := range []bool{false, true} {
		m.coverage.Open = func() bool { return open }
		if covered, never := m.coverage.Covers(t.Context(), "a"); covered != open || never != "" {
			t.Errorf("open %t: covered %t, %q", open, covered, never)
		}
	}
}
