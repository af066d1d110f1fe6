package webhookconfig

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

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/kit"
)

var spreadAnnotations = map[string]string{"swarm.io/spread": "enabled", "swarm.io/spot-percentage": "60"}

func deployment(namespace string, annotations map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: annotations}}
}

func statefulSet(namespace string, annotations map[string]string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db", Annotations: annotations}}
}

// scopedNamespace returns a namespace in scope.
func scopedNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "ours"}}}
}

func otherNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// spreadConfiguration returns the configuration with a spread webhook, as installed and with a CA bundle.
func spreadConfiguration() *admissionv1.MutatingWebhookConfiguration {
	made := configuration()
	made.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"other": "selector"}}
	made.Webhooks = append(made.Webhooks, admissionv1.MutatingWebhook{
		Name: SpreadWebhook, NamespaceSelector: &metav1.LabelSelector{}, ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte("ca")},
		MatchConditions: []admissionv1.MatchCondition{{Name: "pods", Expression: "true"}},
	})
	return made
}

// A selectorHarness is a namespaceSelectorController with an in-memory cluster that counts patches.
type selectorHarness struct {
	namespaceSelectorController
	patches int
}

func newSelectorHarness(objects ...client.Object) *selectorHarness {
	m := &selectorHarness{}
	m.client = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			m.patches++
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	m.selector = NamespaceSelector{
		Reader: m.client, Settings: snapshot.Settings{Prefix: "swarm.io/"}, OperatorNamespace: "swarm-system",
		Scope: kit.NewScope(labels.SelectorFromSet(labels.Set{"team": "ours"})),
	}
	return m
}

// reconcile reconciles the configuration and returns the spread webhook.
func (m *selectorHarness) reconcile(t *testing.T) *admissionv1.MutatingWebhook {
	t.Helper()
	if _, err := m.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	return spreadWebhook(m.storedConfiguration(t))
}

func (m *selectorHarness) storedConfiguration(t *testing.T) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	found := &admissionv1.MutatingWebhookConfiguration{}
	if err := m.client.Get(t.Context(), request.NamespacedName, found); err != nil {
		t.Fatal(err)
	}
	return found
}

// coveredNamespaces returns the namespaces that a webhook covers.
func coveredNamespaces(hook *admissionv1.MutatingWebhook) []string {
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
		{"nothing", nil, []string{noNamespace}},
		{"nothing that is managed", []client.Object{scopedNamespace("a"), deployment("a", nil), statefulSet("a", nil)}, []string{noNamespace}},
		{"a Deployment", []client.Object{scopedNamespace("a"), deployment("a", spreadAnnotations)}, []string{"a"}},
		{"a StatefulSet", []client.Object{scopedNamespace("a"), statefulSet("a", spreadAnnotations)}, []string{"a"}},
		{"several, in order and each once", []client.Object{scopedNamespace("c"), scopedNamespace("a"), scopedNamespace("b"),
			deployment("c", spreadAnnotations), deployment("a", spreadAnnotations), statefulSet("a", spreadAnnotations), deployment("b", nil)},
			[]string{"a", "c"}},
		{"enabled without numbers", []client.Object{scopedNamespace("a"), deployment("a", only)}, []string{noNamespace}},
		{"numbers without enablement", []client.Object{scopedNamespace("a"), deployment("a", numbers)}, []string{noNamespace}},
		{"a number that is none", []client.Object{scopedNamespace("a"), deployment("a", wrong)}, []string{"a"}},
		{"out of scope", []client.Object{otherNamespace("a"), deployment("a", spreadAnnotations), scopedNamespace("b"),
			deployment("b", spreadAnnotations)}, []string{"b"}},
		{"a namespace that is not known yet", []client.Object{deployment("a", spreadAnnotations)}, []string{noNamespace}},
		{"the cluster's and the operator's own", []client.Object{scopedNamespace("kube-system"), scopedNamespace("kube-flannel"),
			scopedNamespace("swarm-system"), deployment("kube-system", spreadAnnotations), deployment("kube-flannel", spreadAnnotations),
			statefulSet("swarm-system", spreadAnnotations)}, []string{noNamespace}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			m := newSelectorHarness(append(c.world, spreadConfiguration())...)
			hook := m.reconcile(t)
			if !slices.Equal(coveredNamespaces(hook), c.want) || len(hook.Rules) != 1 {
				t.Errorf("asked about %v by %d rules", coveredNamespaces(hook), len(hook.Rules))
			}
			if m.reconcile(t); m.patches != 1 {
				t.Errorf("%d patches", m.patches)
			}
		})
	}
}

func TestNamespaceSelectorFollowsWorkloads(t *testing.T) {
	m := newSelectorHarness(spreadConfiguration(), scopedNamespace("a"), scopedNamespace("b"), deployment("a", spreadAnnotations))
	for _, step := range []struct {
		reason string
		change func() error
		want   []string
	}{
		{"as it is", func() error { return nil }, []string{"a"}},
		{"one more", func() error { return m.client.Create(t.Context(), statefulSet("b", spreadAnnotations)) }, []string{"a", "b"}},
		{"one is gone", func() error { return m.client.Delete(t.Context(), deployment("a", nil)) }, []string{"b"}},
		{"out of scope", func() error { return m.client.Update(t.Context(), otherNamespace("b")) }, []string{noNamespace}},
		{"and in again", func() error { return m.client.Update(t.Context(), scopedNamespace("b")) }, []string{"b"}},
		{"another client restored it", func() error {
			again := spreadConfiguration()
			again.ResourceVersion = m.storedConfiguration(t).ResourceVersion
			return m.client.Update(t.Context(), again)
		}, []string{"b"}},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if got := coveredNamespaces(m.reconcile(t)); !slices.Equal(got, step.want) {
			t.Errorf("%s: asked about %v", step.reason, got)
		}
	}
}

func TestOtherWebhooksAreLeftAlone(t *testing.T) {
	m := newSelectorHarness(spreadConfiguration(), scopedNamespace("a"), deployment("a", spreadAnnotations))
	m.reconcile(t)
	got, was := m.storedConfiguration(t).Webhooks, spreadConfiguration().Webhooks
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
	m := newSelectorHarness(configuration(), scopedNamespace("a"), deployment("a", spreadAnnotations))
	if m.reconcile(t); m.patches > 0 {
		t.Errorf("%d patches", m.patches)
	}
	if _, never := m.selector.Covers(t.Context(), "a"); !strings.Contains(never, "install it") {
		t.Errorf("never: %q", never)
	}
}

func TestNoNamespaceIsSelectedWhenReadOnly(t *testing.T) {
	for reason, change := range map[string]func(*NamespaceSelector){
		"read only":         func(c *NamespaceSelector) { c.Settings.ReadOnly = true },
		"no webhook at all": func(c *NamespaceSelector) { c.DisabledReason = "webhook.enabled is false" },
	} {
		m := newSelectorHarness(spreadConfiguration(), scopedNamespace("a"), deployment("a", spreadAnnotations))
		m.reconcile(t)
		change(&m.selector)
		if got := coveredNamespaces(m.reconcile(t)); !slices.Equal(got, []string{noNamespace}) {
			t.Errorf("%s: asked about %v", reason, got)
		}
		if covered, never := m.selector.Covers(t.Context(), "a"); covered || never != m.selector.DisabledReason {
			t.Errorf("%s: covered %t, never %q", reason, covered, never)
		}
	}
}

func TestCoversFollowsTheConfiguration(t *testing.T) {
	m := newSelectorHarness(spreadConfiguration(), scopedNamespace("a"), scopedNamespace("b"), scopedNamespace("kube-system"),
		deployment("a", spreadAnnotations))
	if covered, excluded := m.selector.Covers(t.Context(), "a"); covered || excluded != "" {
		t.Errorf("as installed: covered %t, never %q", covered, excluded)
	}
	m.reconcile(t)
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
		if covered, excluded := m.selector.Covers(t.Context(), c.namespace); covered != c.covered || !strings.Contains(excluded, c.never) ||
			(excluded == "") != (c.never == "") {
			t.Errorf("%s: covered %t, never %q", c.namespace, covered, excluded)
		}
	}
	unknown := m.storedConfiguration(t)
	spreadWebhook(unknown).ClientConfig.CABundle = nil
	if err := m.client.Update(t.Context(), unknown); err != nil {
		t.Fatal(err)
	}
	if covered, excluded := m.selector.Covers(t.Context(), "a"); covered || excluded != "" {
		t.Errorf("the API server does not know us yet: covered %t, never %q", covered, excluded)
	}
}

func TestManagedChangedPredicate(t *testing.T) {
	managed := newSelectorHarness().selector.managedChanged()
	update := func(before, after map[string]string) bool {
		changed := deployment("a", after)
		changed.Status.ReadyReplicas, changed.ResourceVersion = 3, "2"
		return managed.Update(event.UpdateEvent{ObjectOld: deployment("a", before), ObjectNew: changed})
	}
	more := map[string]string{"swarm.io/spread": "enabled", "swarm.io/spot-percentage": "10", "swarm.io/min-on-demand": "1"}
	for reason, c := range map[string]struct{ got, want bool }{
		"an unmanaged one is made":       {managed.Create(event.CreateEvent{Object: deployment("a", nil)}), false},
		"a managed one is made":          {managed.Create(event.CreateEvent{Object: statefulSet("a", spreadAnnotations)}), true},
		"an unmanaged one goes":          {managed.Delete(event.DeleteEvent{Object: statefulSet("a", nil)}), false},
		"a managed one goes":             {managed.Delete(event.DeleteEvent{Object: deployment("a", spreadAnnotations)}), true},
		"the status of an unmanaged one": {update(nil, nil), false},
		"the status of a managed one":    {update(spreadAnnotations, spreadAnnotations), false},
		"another percentage":             {update(spreadAnnotations, more), false},
		"one begins to be managed":       {update(nil, spreadAnnotations), true},
		"one ceases to be":               {update(spreadAnnotations, nil), true},
		"a namespace is seen":            {labelsChanged().Create(event.CreateEvent{Object: scopedNamespace("a")}), true},
		"a namespace has other labels": {labelsChanged().Update(event.UpdateEvent{ObjectOld: otherNamespace("a"),
			ObjectNew: scopedNamespace("a")}), true},
		"a namespace changes in other ways": {labelsChanged().Update(event.UpdateEvent{ObjectOld: scopedNamespace("a"),
			ObjectNew: scopedNamespace("a")}), false},
		"a namespace goes": {labelsChanged().Delete(event.DeleteEvent{Object: scopedNamespace("a")}), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: woken %t", reason, c.got)
		}
	}
}

func TestNoNamespaceIsCoveredBeforeTheWebhookIsReachable(t *testing.T) {
	m := newSelectorHarness(spreadConfiguration(), scopedNamespace("a"), deployment("a", spreadAnnotations))
	m.reconcile(t)
	for _, open := range []bool{false, true} {
		m.selector.Reachable = func() bool { return open }
		if covered, never := m.selector.Covers(t.Context(), "a"); covered != open || never != "" {
			t.Errorf("open %t: covered %t, %q", open, covered, never)
		}
	}
}
