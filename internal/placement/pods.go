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

// Path is where the API server asks about pods.
const Path = "/spread"

const (
	// hook names this webhook in metrics.
	hook = "spread"
	// timeLimit is less than the API server waits for us, so that it is we who know of it.
	timeLimit = time.Second
	// saidEvery is how often a failure is worth a line: it may be the same for each pod of a cluster.
	saidEvery = 10 * time.Second
)

// Includes tells whether a namespace is in scope.
type Includes func(ctx context.Context, namespace string) (bool, error)

// Within are the namespaces of a scope, whose labels are read from a cache. One that the cache does not know is out of it: what passes now
// can be moved later, what is another operator's cannot be given back.
func Within(reader client.Reader, scope *kit.Scope) Includes {
	return func(ctx context.Context, name string) (bool, error) {
		namespace := &corev1.Namespace{}
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return scope.Includes(namespace), nil
	}
}

// Pods answers the API server about pods, and never refuses one.
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
	// The kubelet would refuse a pod that names its node and requires another, and whoever made it would make the next.
	if !owned || pod.Spec.NodeName != "" {
		return nil
	}
	workload.Namespace = request.Namespace // the pod need not say it
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

// lenient lets everything pass, whatever happens within. A webhook whose failures are ignored is not ignored when it says no.
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
