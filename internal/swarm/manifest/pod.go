package manifest

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Paths in an agent's pod.
const (
	programFolder = "/swarm/bin"
	linkFolder    = "/var/run/secrets/swarm.io"
	stateFolder   = "/var/lib/swarm"
	runtimeFolder = "/swarm/run" // for the pipes of running attempts; the image's own file system may be read-only

	programVolume = "swarm-program"
	linkVolume    = "swarm-link"
	runtimeVolume = "swarm-run"
)

// Audience is the audience of an agent's token: only the link.
const Audience = "swarm.io"

const (
	// defaultGraceSeconds is the grace period of programs, unless their type sets one.
	defaultGraceSeconds = 30
	// agentStopSeconds is the additional time that an agent has to stop after its programs, to deliver their results.
	agentStopSeconds = 10
)

// tokenSeconds is the lifetime of a token; the kubelet renews it well before it expires.
const tokenSeconds = 3600

// template returns the user's pod template with the agent added.
func (m Swarm) template(kind v1alpha1.AgentType) corev1.PodTemplateSpec {
	template := *kind.Template.DeepCopy()
	template.Labels = mergeLabels(template.Labels, m.labels(kind.Type))
	pod := &template.Spec
	pod.AutomountServiceAccountToken = new(false)
	pod.SecurityContext = securePod(pod.SecurityContext)
	if pod.TerminationGracePeriodSeconds == nil {
		pod.TerminationGracePeriodSeconds = new(gracePeriodSeconds(kind) + agentStopSeconds)
	}
	pod.Volumes = append(pod.Volumes, m.volumes(kind)...)
	pod.InitContainers = append([]corev1.Container{m.copyContainer()}, pod.InitContainers...)
	for n := range pod.InitContainers {
		pod.InitContainers[n].SecurityContext = secureContainer(pod.InitContainers[n].SecurityContext)
	}
	for n := range pod.Containers {
		pod.Containers[n].SecurityContext = secureContainer(pod.Containers[n].SecurityContext)
	}
	if len(pod.Containers) > 0 { // the API server refuses templates without containers, but may have stored some before it had the rule
		m.configureAgentContainer(&pod.Containers[0], kind)
	}
	return template
}

// copyContainer copies the agent's program into the pod: the user's image need not contain it.
func (m Swarm) copyContainer() corev1.Container {
	return corev1.Container{
		Name:         programVolume,
		Image:        m.Settings.Image,
		Command:      []string{"/swarm-agent", "copy", programFolder + "/swarm-agent"},
		VolumeMounts: []corev1.VolumeMount{{Name: programVolume, MountPath: programFolder}},
		Resources:    copyResources(),
	}
}

// copyResources are the resources for copying the program. A namespace with a ResourceQuota refuses pods whose containers declare none.
func copyResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
}

// configureAgentContainer makes the first container the agent: our program becomes its entry point and runs the user's command for each
// attempt.
func (m Swarm) configureAgentContainer(container *corev1.Container, kind v1alpha1.AgentType) {
	container.VolumeMounts = append(container.VolumeMounts,
		corev1.VolumeMount{Name: programVolume, MountPath: programFolder, ReadOnly: true},
		corev1.VolumeMount{Name: linkVolume, MountPath: linkFolder, ReadOnly: true},
		corev1.VolumeMount{Name: stateVolume, MountPath: stateFolder},
		corev1.VolumeMount{Name: runtimeVolume, MountPath: runtimeFolder},
	)
	container.Env = append(container.Env, m.environment(kind)...)
	if path := container.TerminationMessagePath; path != "" {
		// The agent writes its process id there, which proves its end. If the template sets no path, both use the default. The
		// terminationMessagePolicy does not matter: logs are read only if this file is empty.
		container.Env = append(container.Env, corev1.EnvVar{Name: "SWARM_TERMINATION_LOG", Value: path})
	}
	if kind.Runtime != nil && kind.Runtime.Exec != nil {
		container.Command = append([]string{programFolder + "/swarm-agent", "run", "--"}, kind.Runtime.Exec.Command...)
		container.Args = nil
	}
}

func (m Swarm) environment(kind v1alpha1.AgentType) []corev1.EnvVar {
	variables := []corev1.EnvVar{
		{Name: "SWARM_NAMESPACE", Value: m.Namespace},
		{Name: "SWARM_NAME", Value: m.Name},
		{Name: "SWARM_AGENT", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "SWARM_SLOTS", Value: strconv.Itoa(int(kind.Slots))},
		{Name: "SWARM_LINK_ADDRESS", Value: m.Settings.Link},
		{Name: "SWARM_LINK_CA_FILE", Value: linkFolder + "/ca.crt"},
		{Name: "SWARM_LINK_TOKEN_FILE", Value: linkFolder + "/token"},
		{Name: "SWARM_STATE", Value: stateFolder},
		{Name: "SWARM_RUNTIME_DIR", Value: runtimeFolder},
	}
	if kind.Runtime != nil && kind.Runtime.Exec != nil && kind.Runtime.Exec.GracePeriodSeconds != nil {
		seconds := strconv.Itoa(int(*kind.Runtime.Exec.GracePeriodSeconds))
		variables = append(variables, corev1.EnvVar{Name: "SWARM_GRACE_SECONDS", Value: seconds})
	}
	return variables
}

// gracePeriodSeconds returns the seconds that a program of an agent has between SIGTERM and SIGKILL.
func gracePeriodSeconds(kind v1alpha1.AgentType) int64 {
	if kind.Runtime != nil && kind.Runtime.Exec != nil && kind.Runtime.Exec.GracePeriodSeconds != nil {
		return int64(*kind.Runtime.Exec.GracePeriodSeconds)
	}
	return defaultGraceSeconds
}

// volumes are the agent's program, its identity on the link and, unless it has a claim, a volume for its state.
func (m Swarm) volumes(kind v1alpha1.AgentType) []corev1.Volume {
	token := corev1.ServiceAccountTokenProjection{Audience: Audience, ExpirationSeconds: new(int64(tokenSeconds)), Path: "token"}
	authority := corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: m.configMapName()},
		Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
	}
	all := []corev1.Volume{
		{Name: programVolume,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("64Mi"))}}},
		{Name: runtimeVolume,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("64Mi"))}}},
		{Name: linkVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &token}, {ConfigMap: &authority}},
		}}},
	}
	if kind.Storage == nil {
		all = append(all, corev1.Volume{Name: stateVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return all
}

// securePod adds what the restricted standard requires of a pod, where the user has set nothing.
func securePod(user *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	context := ptr.Deref(user, corev1.PodSecurityContext{})
	if context.RunAsNonRoot == nil {
		context.RunAsNonRoot = new(true)
	}
	if context.SeccompProfile == nil {
		context.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return &context
}

// secureContainer does the same for a container.
func secureContainer(user *corev1.SecurityContext) *corev1.SecurityContext {
	context := ptr.Deref(user, corev1.SecurityContext{})
	if context.AllowPrivilegeEscalation == nil {
		context.AllowPrivilegeEscalation = new(false)
	}
	if context.Capabilities == nil {
		context.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
	return &context
}

// mergeLabels returns the user's labels overridden by ours.
func mergeLabels(user, own map[string]string) map[string]string {
	labels := maps.Clone(user)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, own)
	return labels
}
