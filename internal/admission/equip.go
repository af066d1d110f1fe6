package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// equip gives a worker its own ConfigMap if its pool has one per worker.
func equip(pod *corev1.Pod, pool *v1alpha1.WorkerPool) error {
	if pool.Spec.Config.Layout != v1alpha1.LayoutPerWorker || !worksFor(pod, pool.Spec.Workers) {
		return nil
	}
	if pod.Name == "" {
		return fmt.Errorf("WorkerPool %q has layout PerWorker, and this pod gets its name too late for that: use a StatefulSet, or a pool of layout Shared", pool.Name)
	}
	volumes, found := redirected(pod.Spec.Volumes, pool.ConfigName(), pool.ConfigNameOf(pod.Name))
	if !found {
		return fmt.Errorf("WorkerPool %q has layout PerWorker, and this pod has no volume of ConfigMap %q: add it to the template of %s %q",
			pool.Name, pool.ConfigName(), pool.Spec.Workers.Kind, pool.Spec.Workers.Name)
	}
	pod.Spec.Volumes = volumes
	return nil
}

// worksFor reports whether a pod belongs to that workload.
func worksFor(pod *corev1.Pod, workers v1alpha1.WorkloadReference) bool {
	owner, owned := survey.OwnerOf(pod)
	return owned && owner.Kind == workers.Kind && owner.Name == workers.Name
}

// redirected returns the volumes with one ConfigMap replaced by another, and whether it was found. A worker gets its ConfigMap when it
// is Ready, so its pod must be able to start without one: the volume becomes optional.
func redirected(volumes []corev1.Volume, from, to string) (changed []corev1.Volume, found bool) {
	changed = make([]corev1.Volume, len(volumes))
	for n := range volumes {
		changed[n] = *volumes[n].DeepCopy()
		for _, source := range configMaps(&changed[n]) {
			if *source.name == from {
				*source.name, *source.optional, found = to, new(true), true
			}
		}
	}
	return changed, found
}

// configMap points to the name of a ConfigMap in a volume, and to whether it is optional.
type configMap struct {
	name     *string
	optional **bool
}

// configMaps returns those that a volume takes files from.
func configMaps(volume *corev1.Volume) []configMap {
	var all []configMap
	if whole := volume.ConfigMap; whole != nil {
		all = append(all, configMap{&whole.Name, &whole.Optional})
	}
	if volume.Projected != nil {
		for _, source := range volume.Projected.Sources {
			if part := source.ConfigMap; part != nil {
				all = append(all, configMap{&part.Name, &part.Optional})
			}
		}
	}
	return all
}
