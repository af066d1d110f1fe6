package webhookconfig

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/webhook/pool"
	"github.com/swarm-io/swarm-operator/kit"
)

// newRegistration registers in an in-memory cluster. Its API server calls the webhook for pods if it is reachable, and answers other
// writes with the given errors, one after the other.
func newRegistration(reachable bool, errs []error, objects ...client.Object) *Registration {
	r := &Registration{
		URL: "https://127.0.0.1:9443", Identity: "this", Bundle: func(context.Context) string { return "ca" }, timeout: 50 * time.Millisecond,
	}
	handler := r.Observe(http.NotFoundHandler())
	next := func() (err error) {
		if len(errs) > 0 {
			err, errs = errs[0], errs[1:]
		}
		return err
	}
	r.Writer = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, is := object.(*corev1.Pod); is {
				if reachable {
					handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, pool.Path, nil))
				}
				return errors.New("denied")
			}
			if err := next(); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if err := next(); err != nil {
				return err
			}
			return c.Update(ctx, object, options...)
		},
	}).Build()
	r.Reader = r.Writer
	return r
}

// leftoverConfiguration returns the configuration that another process has left behind.
func leftoverConfiguration(by string) *admissionv1.MutatingWebhookConfiguration {
	left := configuration()
	left.Annotations = map[string]string{v1alpha1.AnnotationRegisteredBy: by}
	return left
}

// storedConfiguration returns the configuration in the cluster, nil for none.
func storedConfiguration(t *testing.T, r *Registration) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	found := &admissionv1.MutatingWebhookConfiguration{}
	err := r.Reader.Get(t.Context(), client.ObjectKey{Name: ConfigurationName}, found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWebhookIsRegisteredByURL(t *testing.T) {
	configurations := schema.GroupResource{Resource: "mutatingwebhookconfigurations"}
	for _, c := range []struct {
		reason string
		r      *Registration
	}{
		{"nothing is there", newRegistration(true, nil)},
		{"another process has left one behind", newRegistration(true, nil, leftoverConfiguration("another"))},
		{"another process creates one at the same time", newRegistration(true,
			[]error{apierrors.NewAlreadyExists(configurations, ConfigurationName)})},
		{"another process writes at the same time", newRegistration(true,
			[]error{apierrors.NewConflict(configurations, ConfigurationName, errors.New("stale"))}, leftoverConfiguration("another"))},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if err := errors.Join(c.r.Check(t.Context()), c.r.Start(t.Context())); err != nil || !c.r.ProbeDone() {
				t.Fatalf("settled %t: %v", c.r.ProbeDone(), err)
			}
			found := storedConfiguration(t, c.r)
			if found.Annotations[v1alpha1.AnnotationRegisteredBy] != "this" || found.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedByOperator {
				t.Errorf("marked by %v and %v", found.Annotations, found.Labels)
			}
			var urls []string
			for _, hook := range found.Webhooks {
				urls = append(urls, *hook.ClientConfig.URL)
				if *hook.FailurePolicy != admissionv1.Ignore || hook.ClientConfig.Service != nil || string(hook.ClientConfig.CABundle) != "ca" {
					t.Errorf("%s: %+v", hook.Name, hook)
				}
			}
			if want := []string{"https://127.0.0.1:9443/pods", "https://127.0.0.1:9443/spread"}; !slices.Equal(urls, want) {
				t.Errorf("called at %v, want %v", urls, want)
			}
		})
	}
}

func TestInstallationIsNeverReplaced(t *testing.T) {
	r := newRegistration(true, nil, configuration())
	if err := r.Check(t.Context()); !errors.Is(err, ErrInstalled) {
		t.Errorf("check: %v", err)
	}
	if err := r.Start(t.Context()); !errors.Is(err, ErrInstalled) || r.ProbeDone() {
		t.Errorf("start: %v", err)
	}
	if err := r.Remove(t.Context(), r.Reader, r.Writer); err != nil {
		t.Errorf("remove: %v", err)
	}
	if found := storedConfiguration(t, r); found == nil || len(found.Annotations) > 0 || found.Webhooks[0].ClientConfig.URL != nil {
		t.Errorf("got %+v", found)
	}
}

func TestOnlyOnesOwnRegistrationIsRemoved(t *testing.T) {
	for by, stays := range map[string]bool{"this": false, "another": true} {
		r := newRegistration(true, nil, leftoverConfiguration(by))
		if err := r.Remove(t.Context(), r.Reader, r.Writer); err != nil || (storedConfiguration(t, r) != nil) != stays {
			t.Errorf("of %s: stays %t: %v", by, !stays, err)
		}
	}
	none := newRegistration(true, nil)
	if err := none.Remove(t.Context(), none.Reader, none.Writer); err != nil {
		t.Error(err)
	}
}

func TestWebhookThatCannotBeCalledIsNotRegistered(t *testing.T) {
	r := newRegistration(false, nil)
	if err := r.Start(t.Context()); err != nil || storedConfiguration(t, r) != nil || !r.ProbeDone() {
		t.Errorf("settled %t, stored %v: %v", r.ProbeDone(), storedConfiguration(t, r), err)
	}
}

func TestFailedRegistrationEndsTheOperatorUnlessItStops(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "mutatingwebhookconfigurations"}, ConfigurationName,
		errors.New("no rule"))
	for _, c := range []struct {
		reason string
		err    error
		fails  bool
	}{{"not allowed", forbidden, true}, {"not leading any more", kit.ErrNotLeading, false}} {
		r := newRegistration(true, []error{c.err})
		if err := r.Start(t.Context()); (err != nil) != c.fails || r.ProbeDone() {
			t.Errorf("%s: settled %t: %v", c.reason, r.ProbeDone(), err)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	r := newRegistration(true, []error{context.Canceled})
	if err := r.Start(stopped); err != nil {
		t.Errorf("stopped: %v", err)
	}
}

func TestRegistrationWaitsForTheCA(t *testing.T) {
	r, looks := newRegistration(true, nil), 0
	r.Bundle = func(context.Context) string {
		looks++
		if looks < 3 {
			return ""
		}
		return "late"
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := storedConfiguration(t, r); string(found.Webhooks[0].ClientConfig.CABundle) != "late" {
		t.Errorf("got %q", found.Webhooks[0].ClientConfig.CABundle)
	}
}
