package pool

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// port is where workers acknowledge.
const port = "9090"

func workerImage() string { return testcluster.ImageOr("WORKER_IMAGE", "localhost/swarm-worker:dev") }

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(api.Create(ctx, object)).To(Succeed())
	}
}

func current[T client.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	Expect(api.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

// restricted returns a pod with one container that meets the restricted standard. All pods write to the journal as the same user.
func restricted(container corev1.Container, volumes ...corev1.Volume) corev1.PodSpec {
	container.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	return corev1.PodSpec{
		AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)), EnableServiceLinks: new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{container}, Volumes: volumes,
	}
}

func claimVolume(claim string) corev1.Volume {
	return corev1.Volume{Name: claim,
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// idleContainer is the container of a worker that accepts jobs and runs nothing.
func idleContainer() corev1.Container {
	return corev1.Container{Image: workerImage(), Args: []string{"hold"}}
}

// stuckContainer is the container of a worker whose jobs with the prefix "stuck" do not stop.
func stuckContainer() corev1.Container {
	return corev1.Container{Image: testcluster.ProbeImage(), Args: []string{"stand"}}
}

// lyingContainer is the container of a worker that always reports the same status.
func lyingContainer(said string) corev1.Container {
	return corev1.Container{Image: testcluster.ProbeImage(), Args: []string{"answer", said}}
}

// worker is the pod of docs/reference/worker.md, with a journal.
func worker(container corev1.Container, pool string) corev1.PodSpec {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	container.Name = "swarm-worker"
	container.Env = []corev1.EnvVar{
		{Name: "POD_NAME", ValueFrom: field("metadata.name")}, {Name: "POD_UID", ValueFrom: field("metadata.uid")},
		{Name: "SWARM_JOURNAL", Value: journalFile},
	}
	container.Ports = []corev1.ContainerPort{{Name: "internal", ContainerPort: 9090}}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/app/config"}, {Name: "pod", MountPath: "/app/pod"},
		{Name: "journal", MountPath: journalFolder}}
	config := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: pool + "-config"}, Optional: new(true)}
	version := corev1.DownwardAPIVolumeFile{Path: "config-version",
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + v1alpha1.AnnotationConfigVersion + "']"}}
	return restricted(container, claimVolume("journal"),
		corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: config}},
		corev1.Volume{Name: "pod",
			VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{version}}}})
}

func statefulSet(name string, replicas int32, container corev1.Container) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: worker(container, name)},
		},
	}
}

// deployment replaces its pods one by one, the new before the old.
func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1)),
				MaxUnavailable: new(intstr.FromInt32(0))}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: worker(idleContainer(), name)},
		},
	}
}

// poolOf is a pool of a StatefulSet of its own name.
func poolOf(name string, jobs ...string) *v1alpha1.WorkerPool {
	pool := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name},
		Spec: v1alpha1.WorkerPoolSpec{
			Workers: v1alpha1.WorkloadReference{Name: name},
			Refresh: v1alpha1.PoolRefresh{Acknowledge: &v1alpha1.PoolAcknowledge{HTTPGet: v1alpha1.AcknowledgeHTTPGet{Port: 9090}}},
		},
	}
	for _, job := range jobs {
		pool.Spec.Jobs = append(pool.Spec.Jobs, v1alpha1.Job{Name: job})
	}
	return pool
}

func numberedNames(prefix string, count int) []string {
	var names []string
	for n := range count {
		names = append(names, fmt.Sprintf("%s-%02d", prefix, n))
	}
	return names
}
