package webhookconfig

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
	// probeTimeout is how long the API server may take to call the webhook for the first time. For caPropagationDelay, a replica still shows a
	// former certificate, which may not be valid for the URL.
	probeTimeout = caPropagationDelay + 10*time.Second
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

	timeout   time.Duration // of the probe; 0 means probeTimeout
	called    atomic.Bool
	probeDone atomic.Bool
}

// Check returns ErrInstalled if the cluster has the configuration of an installed operator.
func (r *Registration) Check(ctx context.Context) error {
	_, err := ownConfiguration(ctx, r.Reader)
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
	r.probeDone.Store(true)
	return err
}

// ProbeDone reports whether it is known if the API server calls the webhook.
func (r *Registration) ProbeDone() bool { return r.probeDone.Load() }

// Observe wraps the webhook that the probe should reach.
func (r *Registration) Observe(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		r.called.Store(true)
		inner.ServeHTTP(writer, request)
	})
}

// Remove deletes the configuration if this process has registered it. The reader must not be a cache.
func (r *Registration) Remove(ctx context.Context, reader client.Reader, writer client.Writer) error {
	existing, err := ownConfiguration(ctx, reader)
	if errors.Is(err, ErrInstalled) || err == nil && existing == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if existing.Annotations[v1alpha1.AnnotationRegisteredBy] != r.Identity {
		return nil
	}
	unchanged := client.Preconditions{UID: &existing.UID, ResourceVersion: &existing.ResourceVersion}
	err = writer.Delete(ctx, existing, unchanged)
	if apierrors.IsConflict(err) && ctx.Err() == nil {
		return r.Remove(ctx, reader, writer)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete MutatingWebhookConfiguration %q: %w", ConfigurationName, err)
	}
	return nil
}

// ownConfiguration returns the configuration that an operator has registered itself, or nil if there is none.
func ownConfiguration(ctx context.Context, reader client.Reader) (*admissionv1.MutatingWebhookConfiguration, error) {
	config := &admissionv1.MutatingWebhookConfiguration{}
	err := reader.Get(ctx, client.ObjectKey{Name: ConfigurationName}, config)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get MutatingWebhookConfiguration %q: %w", ConfigurationName, err)
	case config.Annotations[v1alpha1.AnnotationRegisteredBy] == "":
		return nil, ErrInstalled
	}
	return config, nil
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
	isRetryable := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultBackoff, isRetryable, func() error { return r.createOrUpdate(ctx, bundle) })
}

func (r *Registration) createOrUpdate(ctx context.Context, bundle string) error {
	desired, err := r.configuration(bundle)
	if err != nil {
		return err
	}
	existing, err := ownConfiguration(ctx, r.Reader)
	switch {
	case err != nil:
		return err
	case existing == nil:
		return r.Writer.Create(ctx, desired)
	}
	desired.ResourceVersion = existing.ResourceVersion
	return r.Writer.Update(ctx, desired)
}

// configuration is that of an installation, except for where and how strictly the webhooks are called.
func (r *Registration) configuration(bundle string) (*admissionv1.MutatingWebhookConfiguration, error) {
	config := &admissionv1.MutatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(deploy.Admission, config); err != nil {
		return nil, fmt.Errorf("read MutatingWebhookConfiguration of an installation: %w", err)
	}
	config.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator}
	config.Annotations = map[string]string{v1alpha1.AnnotationRegisteredBy: r.Identity}
	for n := range config.Webhooks {
		hook := &config.Webhooks[n]
		hook.ClientConfig = admissionv1.WebhookClientConfig{URL: new(r.URL + *hook.ClientConfig.Service.Path), CABundle: []byte(bundle)}
		hook.FailurePolicy = new(admissionv1.Ignore)
	}
	return config, nil
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
