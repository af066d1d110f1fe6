package admission

import (
	"context"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/swarm-io/swarm-operator/kit"
)

var request = reconcile.Request{NamespacedName: types.NamespacedName{Name: ConfigurationName}}

func configuration() *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName},
		Webhooks:   []admissionv1.MutatingWebhook{{Name: "pods.swarm.io", SideEffects: new(admissionv1.SideEffectClassNone)}, {Name: "more.swarm.io"}},
	}
}

// A desk is a keeper with an in-memory cluster that counts patches and fails them with an error, if there is one.
type desk struct {
	keeper
	patches int
	answer  error
	bundle  string
}

func newDesk(objects ...client.Object) *desk {
	d := &desk{bundle: "first"}
	inner := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			d.patches++
			if d.answer != nil {
				return d.answer
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	d.keeper = keeper{client: inner, bundle: func(context.Context) string { return d.bundle }, now: time.Now}
	return d
}

func (d *desk) look(t *testing.T) error {
	t.Helper()
	_, err := d.Reconcile(t.Context(), request)
	return err
}

func TestBundleThatCertManagerKeepsIsLeftAlone(t *testing.T) {
	injected := configuration()
	injected.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "swarm-system/swarm-operator-webhook"}
	injected.Webhooks[0].ClientConfig.CABundle = []byte("theirs")
	d := newDesk(injected)
	if err := d.look(t); err != nil || d.patches != 0 {
		t.Errorf("%d patches: %v", d.patches, err)
	}
}

func TestLeaderKeepsTheBundle(t *testing.T) {
	d := newDesk(configuration())
	for _, step := range []struct {
		bundle  string
		patches int
	}{{"", 0}, {"first", 1}, {"first", 1}, {"first second", 2}, {"", 2}} {
		d.bundle = step.bundle
		if err := d.look(t); err != nil || d.patches != step.patches {
			t.Errorf("%q: %d patches, want %d: %v", step.bundle, d.patches, step.patches, err)
		}
	}
	found := &admissionv1.MutatingWebhookConfiguration{}
	if err := d.client.Get(t.Context(), request.NamespacedName, found); err != nil {
		t.Fatal(err)
	}
	for _, hook := range found.Webhooks {
		if string(hook.ClientConfig.CABundle) != "first second" {
			t.Errorf("%s trusts %q", hook.Name, hook.ClientConfig.CABundle)
		}
	}
	if len(found.Webhooks) != 2 || *found.Webhooks[0].SideEffects != admissionv1.SideEffectClassNone {
		t.Errorf("something else changed: %+v", found.Webhooks)
	}
}

func TestConfigurationIsNeverCreated(t *testing.T) {
	other := configuration()
	other.Name = "foreign"
	d := newDesk(other)
	if err := d.look(t); err != nil || d.patches > 0 {
		t.Errorf("%d patches: %v", d.patches, err)
	}
}

func TestWhatAFailedPatchMeans(t *testing.T) {
	configurations := schema.GroupResource{Resource: "mutatingwebhookconfigurations"}
	for _, c := range []struct {
		reason string
		answer error
		told   bool
	}{
		{"another client wrote in between", apierrors.NewConflict(configurations, ConfigurationName, errors.New("stale")), false},
		{"it was deleted in between", apierrors.NewNotFound(configurations, ConfigurationName), false},
		{"we lead no more", kit.ErrNotLeading, false},
		{"we may not", apierrors.NewForbidden(configurations, ConfigurationName, errors.New("no rule")), true},
	} {
		d := newDesk(configuration())
		d.answer = c.answer
		if err := d.look(t); (err != nil) != c.told {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}
