package pool

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// mountWorkerConfig gives a worker its own ConfigMap if its pool has one per worker.
func mountWorkerConfig(pod *corev1.Pod, pool *v1alpha1.WorkerPool) error {
	if pool.Spec.Config.Layout != v1alpha1.LayoutPerWorker || !isWorkerOf(pod, pool.Spec.Workers) {
		return nil
	}
	if pod.Name == "" {
		return fmt.Errorf("WorkerPool %q has layout PerWorker, and this pod gets its name too late for that: use a StatefulSet, or a pool of layout Shared", pool.Name)
	}
	volumes, replaced := redirectVolumes(pod.Spec.Volumes, pool.ConfigName(), pool.ConfigNameOf(pod.Name))
	if !replaced {
		return fmt.Errorf("WorkerPool %q has layout PerWorker, and this pod has no volume of ConfigMap %q: add it to the template of %s %q",
			pool.Name, pool.ConfigName(), pool.Spec.Workers.Kind, pool.Spec.Workers.Name)
	}
	pod.Spec.Volumes = volumes
	return nil
}

// isWorkerOf reports whether a pod belongs to that workload.
func isWorkerOf(pod *corev1.Pod, workers v1alpha1.WorkloadReference) bool {
	owner, owned := workload.OwnerOf(pod)
	return owned && owner.Kind == workers.Kind && owner.Name == workers.Name
}

// redirectVolumes returns the volumes with one ConfigMap replaced by another, and whether it was found. A worker gets its ConfigMap when it
// is Ready, so its pod must be able to start without one: the volume becomes optional.
func redirectVolumes(volumes []corev1.Volume, original, target string) (changed []corev1.Volume, replaced bool) {
	changed = make([]corev1.Volume, len(volumes))
	for n := range volumes {
		changed[n] = *volumes[n].DeepCopy()
		for _, source := range configMapSources(&changed[n]) {
			if *source.name == original {
				*source.name, *source.optional, replaced = target, new(true), true
			}
		}
	}
	return changed, replaced
}

// configMapSource points to the name of a ConfigMap in a volume, and to whether it is optional.
type configMapSource struct {
	name     *string
	optional **bool
}

// configMapSources returns those that a volume takes files from.
func configMapSources(volume *corev1.Volume) []configMapSource {
	var sources []configMapSource
	if volumeSource := volume.ConfigMap; volumeSource != nil {
		sources = append(sources, configMapSource{&volumeSource.Name, &volumeSource.Optional})
	}
	if volume.Projected != nil {
		for _, source := range volume.Projected.Sources {
			if projection := source.ConfigMap; projection != nil {
				sources = append(sources, configMapSource{&projection.Name, &projection.Optional})
			}
		}
	}
	return sources
}
