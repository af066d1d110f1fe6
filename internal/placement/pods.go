package placement

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
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

// Path is where the API server calls the webhook.
const Path = "/spread"

const (
	// hook names this webhook in metrics.
	hook = "spread"
	// timeLimit is shorter than the API server's timeout, so that we notice and count it.
	timeLimit = time.Second
	// saidEvery limits how often a failure is logged: it may be the same for every pod of a cluster.
	saidEvery = 10 * time.Second
)

// Includes reports whether a namespace is in scope.
type Includes func(ctx context.Context, namespace string) (bool, error)

// Within returns the check for a scope, with labels read from a cache. A namespace that the cache does not know is out of scope: a pod
// that passes now can be moved later, but one of another operator's cannot be given back.
func Within(reader client.Reader, scope *kit.Scope) Includes {
	return func(ctx context.Context, name string) (bool, error) {
		namespace := &corev1.Namespace{}
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return scope.Includes(namespace), nil
	}
}

// Pods returns the webhook that places pods. It never rejects one.
func Pods(asker Asker, scheme *runtime.Scheme, settings survey.Settings, scope Includes, registry prometheus.Registerer) *admission.Webhook {
	inner := admission.WithDefaulter(scheme, pods{asker, settings, scope})
	return &admission.Webhook{LogConstructor: limit.Logger, Handler: &lenient{
		inner: inner.Handler, idle: settings.ReadOnly, metrics: newMetrics(registry), seldom: rate.Sometimes{Interval: saidEvery},
	}}
}

type pods struct {
	asker    Asker
	settings survey.Settings
	scope    Includes
}

// Default implements admission.Defaulter.
func (p pods) Default(ctx context.Context, pod *corev1.Pod) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	workload, owned := survey.OwnerOf(pod)
	// The kubelet would reject a pod that names its node and requires another, and the pod's controller would create the next.
	if !owned || pod.Spec.NodeName != "" {
		return nil
	}
	workload.Namespace = request.Namespace // the pod may leave it empty
	if within, err := p.scope(ctx, request.Namespace); err != nil || !within {
		return err
	}
	ask := Ask{
		Workload: workload, Hash: pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey], Pod: pod.Name,
		Request: string(request.UID), DryRun: request.DryRun != nil && *request.DryRun,
	}
	if err := ask.validate(); err != nil {
		return err // before it is sent to the leader
	}
	answer, err := p.asker.Place(ctx, ask)
	if err != nil || !answer.Managed {
		return err
	}
	Place(pod, answer.Class, answer.Number, p.settings)
	return nil
}

// lenient admits every pod, whatever fails. With failurePolicy Ignore, the API server still respects a rejection.
type lenient struct {
	inner   admission.Handler
	idle    bool
	metrics *metrics
	seldom  rate.Sometimes
}

// Handle implements admission.Handler.
func (l *lenient) Handle(ctx context.Context, request admission.Request) admission.Response {
	began, became := time.Now(), passed
	response, err := l.ask(ctx, request)
	switch {
	case err != nil:
		response, became = admission.Allowed(""), failed
		l.seldom.Do(func() { log.FromContext(ctx).Error(err, "a pod passes without a place, as others may have before") })
	case len(response.Patches) > 0:
		became = placed
	}
	l.metrics.answered(became, time.Since(began))
	return response
}

func (l *lenient) ask(ctx context.Context, request admission.Request) (response admission.Response, err error) {
	if l.idle || request.Operation != admissionv1.Create || request.SubResource != "" {
		return admission.Allowed(""), nil
	}
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v\n%s", problem, debug.Stack())
		}
	}()
	ctx, stop := context.WithTimeout(ctx, timeLimit)
	defer stop()
	if response = l.inner.Handle(ctx, request); !response.Allowed {
		err = errors.New(response.Result.Message)
	}
	return response, err
}
