package manifest

import (
	"encoding/json"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Service gives every agent a DNS name, even before it is ready: agents look for each other while they start.
func (m Swarm) Service() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: m.objectMeta(m.serviceName(), ""),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			Selector:                 map[string]string{v1alpha1.LabelSwarm: m.Name},
			PublishNotReadyAddresses: true,
		},
	}
}

// swarmDescription is the content of the ConfigMap, for agents and users.
type swarmDescription struct {
	Swarm    string            `json:"swarm"`
	Topology v1alpha1.Topology `json:"topology"`
	Agents   []string          `json:"agents"` // in the order of the topology
}

// Config lists the agents of the swarm and contains the CA that they trust.
func (m Swarm) Config() *corev1.ConfigMap {
	text, _ := json.MarshalIndent(swarmDescription{Swarm: m.Name, Topology: m.Spec.Topology, Agents: m.AgentNames()}, "", "  ") // never fails
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: m.objectMeta(m.configMapName(), ""),
		Data:       map[string]string{"swarm.json": string(text) + "\n", "ca.crt": m.Settings.Authority},
	}
}

// AgentNames returns all agents in the order of the topology: coordinators first, then by declared type, then by ordinal.
func (m Swarm) AgentNames() []string {
	var first, rest []string
	for n, kind := range m.Spec.Agents {
		for ordinal := range m.Counts[n] {
			name := m.AgentName(kind.Type, ordinal)
			if kind.Type == v1alpha1.AgentTypeCoordinator {
				first = append(first, name)
			} else {
				rest = append(rest, name)
			}
		}
	}
	return append(first, rest...)
}

// Agents returns the Agent objects of all types.
func (m Swarm) Agents() []*v1alpha1.Agent {
	var agents []*v1alpha1.Agent
	for n, kind := range m.Spec.Agents {
		for ordinal := range m.Counts[n] {
			agents = append(agents, m.agent(kind, ordinal))
		}
	}
	return agents
}

func (m Swarm) agent(kind v1alpha1.AgentType, ordinal int) *v1alpha1.Agent {
	return &v1alpha1.Agent{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Agent"},
		ObjectMeta: m.objectMeta(m.AgentName(kind.Type, ordinal), kind.Type),
		Spec: v1alpha1.AgentSpec{
			SwarmRef: v1alpha1.SwarmReference{Name: m.Name}, Type: kind.Type, Capabilities: kind.Capabilities, Slots: kind.Slots,
		},
	}
}

// StatefulSets returns the workloads, one for each type.
func (m Swarm) StatefulSets() []*appsv1.StatefulSet {
	sets := make([]*appsv1.StatefulSet, 0, len(m.Spec.Agents))
	for n, kind := range m.Spec.Agents {
		sets = append(sets, m.statefulSet(kind, int32(m.Counts[n])))
	}
	return sets
}

// statefulSet starts pods in parallel, because one broken agent must not hold back the next. It replaces pods only when they are deleted,
// which the operator does once an agent is drained.
func (m Swarm) statefulSet(kind v1alpha1.AgentType, replicas int32) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: m.objectMeta(m.Workload(kind.Type), kind.Type),
		Spec: appsv1.StatefulSetSpec{
			Replicas:                             new(replicas),
			ServiceName:                          m.serviceName(),
			PodManagementPolicy:                  appsv1.ParallelPodManagement,
			UpdateStrategy:                       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Selector:                             &metav1.LabelSelector{MatchLabels: m.selector(kind.Type)},
			Template:                             m.template(kind),
			VolumeClaimTemplates:                 volumeClaims(kind),
			PersistentVolumeClaimRetentionPolicy: claimRetention(kind),
		},
	}
	set.Annotations = m.spreadAnnotations()
	return set
}

// spreadAnnotations returns the annotations that configure spreading over nodes. All keys are always present: an omitted one would remain
// on the workload after the user removes it from the Swarm.
func (m Swarm) spreadAnnotations() map[string]string {
	key := func(annotation v1alpha1.SpreadAnnotation) string { return annotation.Key(m.Settings.SpreadPrefix) }
	if m.Spec.Spread == nil {
		return map[string]string{key(v1alpha1.SpreadMode): v1alpha1.SpreadDisabled}
	}
	return map[string]string{
		key(v1alpha1.SpreadMode):           v1alpha1.SpreadEnabled,
		key(v1alpha1.SpreadMinOnDemand):    formatOptional(m.Spec.Spread.MinOnDemand),
		key(v1alpha1.SpreadSpotPercentage): formatOptional(m.Spec.Spread.SpotPercentage),
	}
}

func formatOptional(value *int32) string {
	if value == nil {
		return ""
	}
	return strconv.Itoa(int(*value))
}

// stateVolume is the name of an agent's own volume; with the pod's name it forms the name of the claim.
const stateVolume = "state"

func volumeClaims(kind v1alpha1.AgentType) []corev1.PersistentVolumeClaim {
	if kind.Storage == nil {
		return nil
	}
	return []corev1.PersistentVolumeClaim{{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: stateVolume},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: kind.Storage.StorageClassName,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: kind.Storage.Size}},
		},
	}}
}

// claimRetention keeps volumes when the swarm is scaled, and after its deletion if the user requests it.
func claimRetention(kind v1alpha1.AgentType) *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy {
	if kind.Storage == nil {
		return nil
	}
	policy := &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	}
	if kind.Storage.Retention == v1alpha1.StorageDelete {
		policy.WhenDeleted = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return policy
}
