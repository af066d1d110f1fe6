package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/deploy"
	"github.com/swarm-io/swarm-operator/kit"
)

// NotRegistered is logged by an operator that should register its webhook at a URL, but that the API server cannot reach.
const NotRegistered = "admission is not registered: the API server cannot reach this machine; spread and PerWorker pools need `make install`"

const (
	// probeTimeout is how long the API server may take to call the webhook for the first time. For heardAfter, a replica still shows a
	// former certificate, which may not be valid for the URL.
	probeTimeout = heardAfter + 10*time.Second
	probePeriod  = 100 * time.Millisecond
)

// ErrInstalled is returned instead of replacing the configuration of an installed operator.
var ErrInstalled = fmt.Errorf("MutatingWebhookConfiguration %q belongs to an installed operator: "+
	"remove it with `make uninstall`, or run beside it with webhook.url set to \"\"", ConfigurationName)

// A Registration creates the MutatingWebhookConfiguration of an operator that runs outside the cluster, where no Service leads to it:
// the API server calls the webhook at a URL. It must be added to the manager, and removes nothing until Remove is called.
//
// Both webhooks have failurePolicy Ignore, so that a configuration that is left behind by a killed process blocks no pods.
type Registration struct {
	URL      string        // https://host:port
	Identity string        // of this process; unique to each start
	Bundle   Bundle        // of the CA that signs the webhook's certificate
	Reader   client.Reader // not a cache
	Writer   client.Client // may refuse to write while this process does not lead

	timeout time.Duration // of the probe; 0 means probeTimeout
	called  atomic.Bool
	settled atomic.Bool
}

// Check returns ErrInstalled if the cluster has the configuration of an installed operator.
func (r *Registration) Check(ctx context.Context) error {
	_, err := registered(ctx, r.Reader)
	return err
}

// Start implements manager.Runnable; it runs on the leader only. It registers the webhook and verifies that the API server can call
// it. If not, it removes the registration, and the operator continues without.
func (r *Registration) Start(ctx context.Context) error {
	err := r.register(ctx)
	switch {
	case errors.Is(err, kit.ErrNotLeading), errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return fmt.Errorf("register webhook: %w", err)
	}
	if r.probe(ctx) {
		log.FromContext(ctx).Info("registered admission", "url", r.URL)
	} else if ctx.Err() == nil {
		log.FromContext(ctx).Info(NotRegistered, "url", r.URL)
		err = r.Remove(ctx, r.Reader, r.Writer)
	}
	r.settled.Store(true)
	return err
}

// Settled reports whether it is known if the API server calls the webhook.
func (r *Registration) Settled() bool { return r.settled.Load() }

// Observe wraps the webhook that the probe should reach.
func (r *Registration) Observe(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		r.called.Store(true)
		inner.ServeHTTP(writer, request)
	})
}

// Remove deletes the configuration if this process has registered it. The reader must not be a cache.
func (r *Registration) Remove(ctx context.Context, reader client.Reader, writer client.Writer) error {
	found, err := registered(ctx, reader)
	if errors.Is(err, ErrInstalled) || err == nil && found == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if found.Annotations[v1alpha1.AnnotationRegisteredBy] != r.Identity {
		return nil
	}
	unchanged := client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}
	err = writer.Delete(ctx, found, unchanged)
	if apierrors.IsConflict(err) && ctx.Err() == nil {
		return r.Remove(ctx, reader, writer)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete MutatingWebhookConfiguration %q: %w", ConfigurationName, err)
	}
	return nil
}

// registered returns the configuration that an operator has registered itself, or nil if there is none.
func registered(ctx context.Context, reader client.Reader) (*admissionv1.MutatingWebhookConfiguration, error) {
	found := &admissionv1.MutatingWebhookConfiguration{}
	err := reader.Get(ctx, client.ObjectKey{Name: ConfigurationName}, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get MutatingWebhookConfiguration %q: %w", ConfigurationName, err)
	case found.Annotations[v1alpha1.AnnotationRegisteredBy] == "":
		return nil, ErrInstalled
	}
	return found, nil
}

// register waits for the CA, then creates the configuration or replaces the one that another process has left behind.
func (r *Registration) register(ctx context.Context) error {
	var bundle string
	err := wait.PollUntilContextCancel(ctx, probePeriod, true, func(ctx context.Context) (bool, error) {
		bundle = r.Bundle(ctx)
		return bundle != "", nil
	})
	if err != nil {
		return err
	}
	raced := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultBackoff, raced, func() error { return r.put(ctx, bundle) })
}

func (r *Registration) put(ctx context.Context, bundle string) error {
	wanted, err := r.configuration(bundle)
	if err != nil {
		return err
	}
	found, err := registered(ctx, r.Reader)
	switch {
	case err != nil:
		return err
	case found == nil:
		return r.Writer.Create(ctx, wanted)
	}
	wanted.ResourceVersion = found.ResourceVersion
	return r.Writer.Update(ctx, wanted)
}

// configuration is that of an installation, except for where and how strictly the webhooks are called.
func (r *Registration) configuration(bundle string) (*admissionv1.MutatingWebhookConfiguration, error) {
	made := &admissionv1.MutatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(deploy.Admission, made); err != nil {
		return nil, fmt.Errorf("read MutatingWebhookConfiguration of an installation: %w", err)
	}
	made.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator}
	made.Annotations = map[string]string{v1alpha1.AnnotationRegisteredBy: r.Identity}
	for n := range made.Webhooks {
		hook := &made.Webhooks[n]
		hook.ClientConfig = admissionv1.WebhookClientConfig{URL: new(r.URL + *hook.ClientConfig.Service.Path), CABundle: []byte(bundle)}
		hook.FailurePolicy = new(admissionv1.Ignore)
	}
	return made, nil
}

// probe reports whether the API server calls the webhook. It creates a pod of a worker pool in dry-run mode, so nothing is stored; the
// result of the admission does not matter.
func (r *Registration) probe(ctx context.Context) bool {
	timeout := r.timeout
	if timeout == 0 {
		timeout = probeTimeout
	}
	err := wait.PollUntilContextTimeout(ctx, probePeriod, timeout, true, func(ctx context.Context) (bool, error) {
		_ = r.Writer.Create(ctx, probePod(), client.DryRunAll)
		return r.called.Load(), nil
	})
	return err == nil
}

func probePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, GenerateName: "swarm-operator-probe-",
			Labels: map[string]string{v1alpha1.LabelPool: "swarm-operator-probe"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "localhost/none"}}},
	}
}
