package workerpool

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// workload is the StatefulSet or Deployment whose pods are the workers.
type workload struct {
	object   client.Object
	kind     v1alpha1.WorkloadKind
	replicas int // the requested number
	start    int // the first ordinal
	selector *metav1.LabelSelector
	observed bool // the StatefulSet controller acts on the current spec, and its creates for an earlier one have been answered
}

// slotted reports whether we assign slots to pods, because they have no ordinals.
func (w workload) slotted() bool { return w.kind == v1alpha1.WorkloadDeployment }

// expects reports whether the workload requires a pod with that ordinal.
func (w workload) expects(ordinal int) bool {
	return ordinal >= w.start && ordinal < w.start+w.replicas
}

// ordinal returns the ordinal of a StatefulSet's pod by name, or -1.
func (w workload) ordinal(pod string) int {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(pod, w.object.GetName()+"-"))
	if err != nil {
		return -1
	}
	return ordinal
}

// workload finds the workload of a pool, unless another pool uses it.
func (r *reconciler) workload(ctx context.Context, pool *v1alpha1.WorkerPool) (workload, *refusal, error) {
	if pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker && r.shared != "" {
		return workload{}, refuse(v1alpha1.ReasonNotSupported, "config.layout PerWorker is not supported by this operator: %s: delete this WorkerPool and create another with Shared", r.shared), nil
	}
	of := pool.Spec.Workers
	rivals := &v1alpha1.WorkerPoolList{}
	if err := r.client.List(ctx, rivals, client.InNamespace(pool.Namespace), client.MatchingFields{workloadIndex: workloadKey(of.Kind, of.Name)}); err != nil {
		return workload{}, nil, fmt.Errorf("list pools of %s %q: %w", of.Kind, of.Name, err)
	}
	if first := slices.MinFunc(append(rivals.Items, *pool), older); first.UID != pool.UID {
		return workload{}, refuse(v1alpha1.ReasonWorkloadTaken, "%s %q has a pool already, %q: delete one of the two", of.Kind, of.Name, first.Name), nil
	}
	found, err := r.find(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: of.Name}, of.Kind)
	if apierrors.IsNotFound(err) {
		return found, refuse(v1alpha1.ReasonWorkloadNotFound, "there is no %s %q in namespace %q: create it, or delete this pool", of.Kind, of.Name, pool.Namespace), nil
	}
	if err != nil {
		return found, nil, fmt.Errorf("read %s %q: %w", of.Kind, of.Name, err)
	}
	if survey.TooLarge(found.object) {
		return found, refuse(v1alpha1.ReasonNotSupported,
			"%s %q: %s; its workers keep their jobs", of.Kind, of.Name, survey.WorkloadTooLarge), nil
	}
	if swarm := scaledBySwarm(found.object); swarm != "" && pool.Spec.Replicas != nil {
		return found, refuse(v1alpha1.ReasonWorkloadTaken, "%s %q belongs to Swarm %q, which scales it: remove replicas from this pool", of.Kind, of.Name, swarm), nil
	}
	return found, nil, nil
}

// scaledBySwarm returns the Swarm that a workload belongs to, or "": the Swarm and the pool would undo each other's scaling.
func scaledBySwarm(workload client.Object) string {
	owner := metav1.GetControllerOfNoCopy(workload)
	if owner == nil || owner.Kind != "Swarm" || owner.APIVersion != v1alpha1.GroupVersion.String() {
		return ""
	}
	return owner.Name
}

// older orders pools by creation; of two created in the same second, the one that has begun comes first.
func older(a, b v1alpha1.WorkerPool) int {
	begun := func(pool v1alpha1.WorkerPool) int64 { return min(pool.Status.Revision, 1) }
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(begun(b), begun(a)),
		strings.Compare(a.Name, b.Name),
	)
}

func (r *reconciler) find(ctx context.Context, key client.ObjectKey, kind v1alpha1.WorkloadKind) (workload, error) {
	if kind == v1alpha1.WorkloadDeployment {
		object := &appsv1.Deployment{}
		err := r.client.Get(ctx, key, object)
		return workload{object: object, kind: kind, replicas: int(ptr.Deref(object.Spec.Replicas, 1)), selector: object.Spec.Selector}, err
	}
	object := &appsv1.StatefulSet{}
	err := r.client.Get(ctx, key, object)
	found := workload{
		object: object, kind: v1alpha1.WorkloadStatefulSet, replicas: int(ptr.Deref(object.Spec.Replicas, 1)), selector: object.Spec.Selector,
		observed: object.Status.ObservedGeneration >= object.Generation,
	}
	if object.Spec.Ordinals != nil {
		found.start = int(object.Spec.Ordinals.Start)
	}
	return found, err
}

// pods returns the pods of the workload from the cache.
func (r *reconciler) pods(ctx context.Context, of workload) ([]*corev1.Pod, error) {
	found, err := r.replicas(ctx, survey.Key{Kind: of.kind, NamespacedName: client.ObjectKeyFromObject(of.object)})
	if err != nil {
		return nil, fmt.Errorf("list pods of %q: %w", of.object.GetName(), err)
	}
	return slices.DeleteFunc(found, of.disowns), nil
}

// livePods returns the pods of the workload from the API server.
func (r *reconciler) livePods(ctx context.Context, of workload) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(of.selector)
	if err != nil {
		return nil, fmt.Errorf("read selector of %q: %w", of.object.GetName(), err)
	}
	list := &corev1.PodList{}
	if err := r.live.List(ctx, list, client.InNamespace(of.object.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list pods of %q past the cache: %w", of.object.GetName(), err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for n := range list.Items {
		pods[n] = &list.Items[n]
	}
	return slices.DeleteFunc(pods, of.disowns), nil
}

// disowns reports whether the workload does not control a pod.
func (w workload) disowns(pod *corev1.Pod) bool {
	key, owned := survey.OwnerOf(pod)
	return !owned || key.Kind != w.kind || key.Name != w.object.GetName() || !w.slotted() && metav1.GetControllerOfNoCopy(pod).UID != w.object.GetUID()
}

// endpoint returns the URL at which a worker is asked.
func endpoint(ip string, at v1alpha1.AcknowledgeHTTPGet) string {
	path := at.Path
	if path == "" {
		path = "/internal/version"
	}
	return "http://" + net.JoinHostPort(ip, strconv.Itoa(int(at.Port))) + path
}
