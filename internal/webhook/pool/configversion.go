package pool

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// annotateConfigVersion writes the version of the worker's published list into the pod. The kubelet may give a new pod an older file, with
// jobs that were assigned to others while no pod of that name existed; the worker waits until the file has reached the version in the
// annotation. Pods of Deployments are named later, with names that no file has ever had.
func (p podDefaulter) annotateConfigVersion(ctx context.Context, pod *corev1.Pod, pool *v1alpha1.WorkerPool) error {
	if pod.Name == "" || !isWorkerOf(pod, pool.Spec.Workers) {
		return nil
	}
	name := pool.ConfigName()
	if pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker {
		name = pool.ConfigNameOf(pod.Name)
	}
	config := &corev1.ConfigMap{}
	switch err := p.live.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: name}, config); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return readError("ConfigMap", name, err)
	case config.Labels[v1alpha1.LabelPool] != pool.Name:
		return nil
	}
	// The controller reverts foreign writes, with a higher version.
	file, _ := codec.ParseFile(config.Data[pool.Spec.Config.Key])
	annotated, _ := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationConfigVersion], 10, 64) // none is 0
	if floor := file.Floor(pod.Name); floor > annotated {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationConfigVersion, strconv.FormatInt(floor, 10))
	}
	return nil
}
