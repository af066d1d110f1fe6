// Package spread is the admission webhook of spread workloads: it restricts a new pod to the nodes of the class that the allocator
// decides on.
//
// It promises:
//   - It writes only the pod in question: its node affinity, tolerations and annotations.
//   - What users set in their templates stays in force.
//   - A failure of ours never rejects a pod: it is admitted without a place, and the controller moves it later.
//
// It ignores pods that have a node already, that no ReplicaSet or StatefulSet controls, or whose workload is not managed.
package spread

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/spread/allocator"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// Path is where the API server calls the webhook.
const Path = "/spread"

const (
	// webhookName names this webhook in metrics.
	webhookName = "spread"
	// requestTimeout is shorter than the API server's timeout, so that we notice and count it.
	requestTimeout = time.Second
	// logInterval limits how often a failure is logged: it may be the same for every pod of a cluster.
	logInterval = 10 * time.Second
)

// NamespaceFilter reports whether a namespace is in scope.
type NamespaceFilter func(ctx context.Context, namespace string) (bool, error)

// InScope returns the check for a scope, with labels read from a cache. A namespace that the cache does not know is out of scope: a pod
// that passes now can be moved later, but one of another operator's cannot be given back.
func InScope(reader client.Reader, scope *kit.Scope) NamespaceFilter {
	return func(ctx context.Context, name string) (bool, error) {
		namespace := &corev1.Namespace{}
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return scope.Includes(namespace), nil
	}
}

// Pods returns the webhook that places pods. It never rejects one.
func Pods(asker allocator.Placer, scheme *runtime.Scheme, settings snapshot.Settings, scope NamespaceFilter,
	registry prometheus.Registerer) *admission.Webhook {
	inner := admission.WithDefaulter(scheme, defaulter{asker, settings, scope})
	return &admission.Webhook{LogConstructor: limit.Logger, Handler: &failOpen{
		inner: inner.Handler, disabled: settings.ReadOnly, metrics: newMetrics(registry), logLimiter: rate.Sometimes{Interval: logInterval},
	}}
}

type defaulter struct {
	placer   allocator.Placer
	settings snapshot.Settings
	scope    NamespaceFilter
}

// Default implements admission.Defaulter.
func (d defaulter) Default(ctx context.Context, pod *corev1.Pod) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	workload, owned := workloads.OwnerOf(pod)
	// The kubelet would reject a pod that names its node and requires another, and the pod's controller would create the next.
	if !owned || pod.Spec.NodeName != "" {
		return nil
	}
	workload.Namespace = request.Namespace // the pod may leave it empty
	if within, err := d.scope(ctx, request.Namespace); err != nil || !within {
		return err
	}
	placementRequest := allocator.Request{
		Workload: workload, TemplateHash: pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey], PodName: pod.Name,
		UID: string(request.UID), DryRun: request.DryRun != nil && *request.DryRun,
	}
	if err := placementRequest.Validate(); err != nil {
		return err // before it is sent to the leader
	}
	placement, err := d.placer.Place(ctx, placementRequest)
	if err != nil || !placement.Managed {
		return err
	}
	Place(pod, placement.Class, placement.Number, d.settings)
	return nil
}

// failOpen admits every pod, whatever fails. With failurePolicy Ignore, the API server still respects a rejection.
type failOpen struct {
	inner      admission.Handler
	disabled   bool
	metrics    *metrics
	logLimiter rate.Sometimes
}

// Handle implements admission.Handler.
func (f *failOpen) Handle(ctx context.Context, request admission.Request) admission.Response {
	start, result := time.Now(), outcomePassed
	response, err := f.handle(ctx, request)
	switch {
	case err != nil:
		response, result = admission.Allowed(""), outcomeFailed
		f.logLimiter.Do(func() {
			log.FromContext(ctx).Error(err, "admitted a pod without a placement, possibly not the first one")
		})
	case len(response.Patches) > 0:
		result = outcomePlaced
	}
	f.metrics.observe(result, time.Since(start))
	return response
}

func (f *failOpen) handle(ctx context.Context, request admission.Request) (response admission.Response, err error) {
	if f.disabled || request.Operation != admissionv1.Create || request.SubResource != "" {
		return admission.Allowed(""), nil
	}
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v\n%s", problem, debug.Stack())
		}
	}()
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	if response = f.inner.Handle(ctx, request); !response.Allowed {
		err = errors.New(response.Result.Message)
	}
	return response, err
}
