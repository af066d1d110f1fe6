package kubernetes

import (
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	ownImage = "localhost/probe:dev"
	port     = 8080
	// appLabel groups the pods of one workload; spaceLabel, those of one namespace where a selector has no namespace.
	appLabel   = "app"
	spaceLabel = "swarm.io/e2e"
)

// A workload is what a pod runs, and on which node, with which volumes. It meets the restricted standard.
type workload struct {
	spec   corev1.PodSpec
	claims []corev1.PersistentVolumeClaim
}

// probe runs our test program.
func probe(arguments ...string) *workload {
	return &workload{spec: corev1.PodSpec{
		AutomountServiceAccountToken:  new(false),
		TerminationGracePeriodSeconds: new(int64(2)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			FSGroup:        new(int64(65532)), // the image's own group
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{container(arguments)},
	}}
}

func container(arguments []string) corev1.Container {
	image, pull := ownImage, corev1.PullNever
	if named := os.Getenv("PROBE_IMAGE"); named != "" {
		image, pull = named, corev1.PullIfNotPresent // a named image may be in a registry
	}
	return corev1.Container{
		Name: "probe", Image: image, ImagePullPolicy: pull, Args: arguments,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// httpServer serves HTTP, and is Ready when it does.
func httpServer() *workload {
	w := probe("serve")
	w.spec.Containers[0].ReadinessProbe = &corev1.Probe{
		PeriodSeconds: 1,
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(port)}},
	}
	return w
}

// idler does nothing: specs run commands in it.
func idler() *workload { return probe("sleep") }

// onNode requires the node.
func (w *workload) onNode(node string) *workload {
	w.spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{nodeNameTerm(node)}},
	}}
	return w
}

// preferring prefers the node.
func (w *workload) preferring(node string) *workload {
	w.spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: nodeNameTerm(node)}},
	}}
	return w
}

func nodeNameTerm(node string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
	}}
}

// mounting gives the pod a volume at /<name>.
func (w *workload) mounting(name string, source corev1.VolumeSource) *workload {
	w.spec.Volumes = append(w.spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	return w.seeing(name)
}

// claiming gives each pod of a StatefulSet its own volume at /<name>, with the cluster's default storage class.
func (w *workload) claiming(name string) *workload {
	w.claims = append(w.claims, corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
	return w.seeing(name)
}

func (w *workload) seeing(volume string) *workload {
	mounts := &w.spec.Containers[0].VolumeMounts
	*mounts = append(*mounts, corev1.VolumeMount{Name: volume, MountPath: "/" + volume})
	return w
}

func (w *workload) pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(name)}, Spec: w.spec}
}

func (w *workload) deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: w.template(name)},
	}
}

// statefulSet needs a headless Service of the same name.
func (w *workload) statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: selector(name), Template: w.template(name),
			ServiceName: name, VolumeClaimTemplates: w.claims,
		},
	}
}

func (w *workload) template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(app)}, Spec: w.spec}
}

func labels(app string) map[string]string {
	return map[string]string{appLabel: app, spaceLabel: namespace}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: app}}
}

// service gives the pods of an app one name and one address.
func service(app string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{appLabel: app},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(port)}},
		},
	}
}

// headless gives them names only, each its own.
func headless(app string) *corev1.Service {
	made := service(app)
	made.Spec.ClusterIP = corev1.ClusterIPNone
	return made
}

func url(host string) string { return fmt.Sprintf("http://%s:%d/", host, port) }
