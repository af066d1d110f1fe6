// Package state reads what a plan of spread depends on: disruption budgets, windows, volumes and nodes. The controller and kubectl swarm
// read through it, from a cache or from the API server, so that they plan from the same input.
//
// It promises that what does not exist is no error. It never writes.
package state

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
)

// Reader reads the input of plans.
type Reader struct {
	client.Reader
	Settings snapshot.Settings
	Windows  map[string]string // of namespaces that were read; nil to read them every time
}

// Input reads what a plan depends on in addition to the objects.
func (r Reader) Input(ctx context.Context, objects snapshot.Objects, admission plan.Admission) (plan.Input, error) {
	windows, err := r.windowsText(ctx, objects)
	if err != nil {
		return plan.Input{}, err
	}
	objects.Volumes = r.volumes(ctx)
	return plan.NewInput(r.Settings, objects, windows, admission)
}

// windowsText returns the text that defines when Ready pods may be moved: that of the workload, its namespace, or the configuration, in
// this order.
func (r Reader) windowsText(ctx context.Context, objects snapshot.Objects) (string, error) {
	if objects.Spec.Windows != "" {
		return objects.Spec.Windows, nil
	}
	name := objects.Workload.Key.Namespace
	text, known := r.Windows[name]
	if !known {
		namespace := &corev1.Namespace{}
		if err := r.Get(ctx, client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read namespace %q: %w", name, err)
		}
		text = strings.TrimSpace(namespace.Annotations[r.Settings.Key(v1alpha1.SpreadWindows)])
	}
	if r.Windows != nil {
		r.Windows[name] = text
	}
	if text != "" {
		return text, nil
	}
	return r.Settings.Windows, nil
}

// Budgets returns those of a namespace, "" for all. They may belong to a cache and must not be changed.
func (r Reader) Budgets(ctx context.Context, namespace string) ([]*policyv1.PodDisruptionBudget, error) {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := r.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	all := make([]*policyv1.PodDisruptionBudget, len(list.Items))
	for n := range list.Items {
		all[n] = &list.Items[n]
	}
	return all, nil
}

// volumesTimeout limits the time that the caches of claims and volumes may take to sync when they are first needed.
const volumesTimeout = 10 * time.Second

// volumes returns a function that finds the volumes of a pod. Their caches start when the first pod with volumes is to be moved: most
// clusters never need them.
func (r Reader) volumes(ctx context.Context) func(*corev1.Pod) ([]*corev1.PersistentVolume, error) {
	return func(pod *corev1.Pod) ([]*corev1.PersistentVolume, error) {
		ctx, cancel := context.WithTimeout(ctx, volumesTimeout)
		defer cancel()
		var all []*corev1.PersistentVolume
		for _, volume := range pod.Spec.Volumes {
			if volume.PersistentVolumeClaim == nil {
				continue
			}
			persistentVolume, err := r.volume(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: volume.PersistentVolumeClaim.ClaimName})
			if err != nil {
				return nil, err
			}
			if persistentVolume != nil {
				all = append(all, persistentVolume)
			}
		}
		return all, nil
	}
}

// volume returns the volume of a claim, nil if it has none.
func (r Reader) volume(ctx context.Context, key client.ObjectKey) (*corev1.PersistentVolume, error) {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	err := r.Get(ctx, key, claim, client.UnsafeDisableDeepCopy)
	if err == nil && claim.Spec.VolumeName != "" {
		err = r.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume, client.UnsafeDisableDeepCopy)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read volume of claim %q: %w", key.Name, err)
	case volume.Name == "":
		return nil, nil
	}
	return volume, nil
}
