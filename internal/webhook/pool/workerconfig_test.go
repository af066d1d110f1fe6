package pool

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// configMapVolume returns a volume of a ConfigMap.
func configMapVolume(name string, optional *bool) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional,
		Items: []corev1.KeyToPath{{Key: "config.yml", Path: "config.yml"}},
	}}}
}

// projectedVolume returns a volume of several ConfigMaps and of something else.
func projectedVolume(optional *bool, names ...string) corev1.Volume {
	sources := []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{}}}
	for _, name := range names {
		sources = append(sources,
			corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name},
				Optional: optional}})
	}
	return corev1.Volume{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}
}

var emptyDirVolume = corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}

func TestVolumesAreRedirected(t *testing.T) {
	const from, to = "jobs", "jobs-worker-0"
	for _, c := range []struct {
		reason    string
		has, want []corev1.Volume
		found     bool
	}{
		{"no volumes", nil, []corev1.Volume{}, false},
		{"other volumes only", []corev1.Volume{emptyDirVolume, configMapVolume("other", nil)},
			[]corev1.Volume{emptyDirVolume, configMapVolume("other", nil)}, false},
		{"a name that only begins alike", []corev1.Volume{configMapVolume("jobs-more", nil)}, []corev1.Volume{configMapVolume("jobs-more", nil)},
			false},
		{"one among others", []corev1.Volume{emptyDirVolume, configMapVolume(from, nil), configMapVolume("other", nil)},
			[]corev1.Volume{emptyDirVolume, configMapVolume(to, new(true)), configMapVolume("other", nil)}, true},
		{"one that must be there", []corev1.Volume{configMapVolume(from, new(false))}, []corev1.Volume{configMapVolume(to, new(true))}, true},
		{"twice", []corev1.Volume{configMapVolume(from, new(true)), configMapVolume(from, nil)},
			[]corev1.Volume{configMapVolume(to, new(true)), configMapVolume(to, new(true))}, true},
		{"part of a projected one", []corev1.Volume{projectedVolume(new(true), "other", from)},
			[]corev1.Volume{projectedVolume(new(true), "other", to)}, true},
		{"a projected one of others", []corev1.Volume{projectedVolume(nil, "other")}, []corev1.Volume{projectedVolume(nil, "other")}, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			before := (&corev1.PodSpec{Volumes: c.has}).DeepCopy().Volumes
			got, found := redirectVolumes(c.has, from, to)
			if found != c.found || !reflect.DeepEqual(got, c.want) {
				t.Errorf("found %t, got %+v", found, got)
			}
			if !reflect.DeepEqual(c.has, before) {
				t.Error("what it was given has changed")
			}
		})
	}
}

// workerPod returns a pod with a controller.
func workerPod(name, kind, owner string, volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1alpha1.LabelPool: "pool", "pod-template-hash": "abc"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "worker"}, {Kind: kind, Name: owner, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Volumes: volumes},
	}
}

func poolOf(kind v1alpha1.WorkloadKind, layout v1alpha1.ConfigLayout) *v1alpha1.WorkerPool {
	return &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"},
		Spec: v1alpha1.WorkerPoolSpec{Workers: v1alpha1.WorkloadReference{Kind: kind, Name: "worker"},
			Config: v1alpha1.PoolConfig{Layout: layout}},
	}
}

func TestWorkersMountTheirConfig(t *testing.T) {
	const set, deployment = v1alpha1.WorkloadStatefulSet, v1alpha1.WorkloadDeployment
	for _, c := range []struct {
		reason string
		pod    *corev1.Pod
		pool   *v1alpha1.WorkerPool
		has    string // the ConfigMap that the volume names then
		told   string
	}{
		{"a worker of its own list", workerPod("worker-0", "StatefulSet", "worker", configMapVolume("worker-config", nil)),
			poolOf(set, v1alpha1.LayoutPerWorker), "worker-config-worker-0", ""},
		{"layout Shared", workerPod("worker-0", "StatefulSet", "worker", configMapVolume("worker-config", nil)),
			poolOf(set, v1alpha1.LayoutShared), "worker-config", ""},
		{"another StatefulSet", workerPod("other-0", "StatefulSet", "other", configMapVolume("worker-config", nil)),
			poolOf(set, v1alpha1.LayoutPerWorker), "worker-config", ""},
		{"another kind of the same name", workerPod("worker-x", "Job", "worker", configMapVolume("worker-config", nil)),
			poolOf(set, v1alpha1.LayoutPerWorker), "worker-config", ""},
		{"a pod without an owner", &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{configMapVolume("worker-config", nil)}}},
			poolOf(set, v1alpha1.LayoutPerWorker), "worker-config", ""},
		{"a Deployment's pod", workerPod("", "ReplicaSet", "worker-abc", configMapVolume("worker-config", nil)),
			poolOf(deployment, v1alpha1.LayoutPerWorker), "worker-config", "use a StatefulSet, or a pool of layout Shared"},
		{"another Deployment's pod", workerPod("", "ReplicaSet", "worker-more-abc", configMapVolume("worker-config", nil)),
			poolOf(deployment, v1alpha1.LayoutPerWorker), "worker-config", ""},
		{"no volume of the list", workerPod("worker-0", "StatefulSet", "worker", configMapVolume("other", nil)),
			poolOf(set, v1alpha1.LayoutPerWorker), "other",
			`no volume of ConfigMap "worker-config": add it to the template of StatefulSet "worker"`},
	} {
		t.Run(c.reason, func(t *testing.T) {
			err := mountWorkerConfig(c.pod, c.pool)
			if (err != nil) != (c.told != "") || err != nil && (!strings.Contains(err.Error(), c.told) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("got %v", err)
			}
			if got := c.pod.Spec.Volumes[0].ConfigMap.Name; got != c.has {
				t.Errorf("the volume is of ConfigMap %q, want %q", got, c.has)
			}
		})
	}
}
