package webhookconfig

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
		Webhooks: []admissionv1.MutatingWebhook{{Name: "pods.swarm.io", SideEffects: new(admissionv1.SideEffectClassNone)},
			{Name: "more.swarm.io"}},
	}
}

// A bundleHarness is a caBundleController with an in-memory cluster that counts patches and fails them with an error, if there is one.
type bundleHarness struct {
	caBundleController
	patches    int
	patchError error
	bundle     string
}

func newBundleHarness(objects ...client.Object) *bundleHarness {
	d := &bundleHarness{bundle: "first"}
	inner := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			d.patches++
			if d.patchError != nil {
				return d.patchError
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	d.caBundleController = caBundleController{client: inner, bundle: func(context.Context) string { return d.bundle }, now: time.Now}
	return d
}

func (d *bundleHarness) reconcile(t *testing.T) error {
	t.Helper()
	_, err := d.Reconcile(t.Context(), request)
	return err
}

func TestBundleThatCertManagerKeepsIsLeftAlone(t *testing.T) {
	injected := configuration()
	injected.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "swarm-system/swarm-operator-webhook"}
	injected.Webhooks[0].ClientConfig.CABundle = []byte("theirs")
	d := newBundleHarness(injected)
	if err := d.reconcile(t); err != nil || d.patches != 0 {
		t.Errorf("%d patches: %v", d.patches, err)
	}
}

func TestLeaderKeepsTheBundle(t *testing.T) {
	d := newBundleHarness(configuration())
	for _, step := range []struct {
		bundle  string
		patches int
	}{{"", 0}, {"first", 1}, {"first", 1}, {"first second", 2}, {"", 2}} {
		d.bundle = step.bundle
		if err := d.reconcile(t); err != nil || d.patches != step.patches {
			t.Errorf("%q: %d patches, want %d: %v", step.bundle, d.patches, step.patches, err)
		}
	}
	config := &admissionv1.MutatingWebhookConfiguration{}
	if err := d.client.Get(t.Context(), request.NamespacedName, config); err != nil {
		t.Fatal(err)
	}
	for _, hook := range config.Webhooks {
		if string(hook.ClientConfig.CABundle) != "first second" {
			t.Errorf("%s trusts %q", hook.Name, hook.ClientConfig.CABundle)
		}
	}
	if len(config.Webhooks) != 2 || *config.Webhooks[0].SideEffects != admissionv1.SideEffectClassNone {
		t.Errorf("something else changed: %+v", config.Webhooks)
	}
}

func TestConfigurationIsNeverCreated(t *testing.T) {
	other := configuration()
	other.Name = "foreign"
	d := newBundleHarness(other)
	if err := d.reconcile(t); err != nil || d.patches > 0 {
		t.Errorf("%d patches: %v", d.patches, err)
	}
}

func TestFailedPatchOfTheConfiguration(t *testing.T) {
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
		d := newBundleHarness(configuration())
		d.patchError = c.answer
		if err := d.reconcile(t); (err != nil) != c.told {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}
