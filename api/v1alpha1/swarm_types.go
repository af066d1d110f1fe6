package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Topology is the shape of the graph along which agents talk to each other.
// +kubebuilder:validation:Enum=mesh;hierarchical;ring;star
type Topology string

// The topologies.
const (
	TopologyMesh         Topology = "mesh"
	TopologyHierarchical Topology = "hierarchical"
	TopologyRing         Topology = "ring"
	TopologyStar         Topology = "star"
)

// SwarmStrategy decides how many agents each type gets and which matching agent gets a task.
// +kubebuilder:validation:Enum=balanced;specialized;adaptive
type SwarmStrategy string

// The strategies of a swarm.
const (
	SwarmBalanced    SwarmStrategy = "balanced"
	SwarmSpecialized SwarmStrategy = "specialized"
	SwarmAdaptive    SwarmStrategy = "adaptive"
)

// SwarmMode is what a swarm does with its agents and its queue.
// +kubebuilder:validation:Enum=Running;Paused;Draining;Suspended
type SwarmMode string

// The modes of a swarm.
const (
	// SwarmRunning dispatches tasks.
	SwarmRunning SwarmMode = "Running"
	// SwarmPaused dispatches nothing new.
	SwarmPaused SwarmMode = "Paused"
	// SwarmDraining finishes what runs, then idles.
	SwarmDraining SwarmMode = "Draining"
	// SwarmSuspended has no pods; their volumes are kept.
	SwarmSuspended SwarmMode = "Suspended"
)

// SwarmPhase summarizes the conditions of a swarm.
// +kubebuilder:validation:Enum=Initializing;Running;Terminating
type SwarmPhase string

// The phases of a swarm.
const (
	SwarmPhaseInitializing SwarmPhase = "Initializing"
	SwarmPhaseRunning      SwarmPhase = "Running"
	SwarmPhaseTerminating  SwarmPhase = "Terminating"
)

// Swarm is a set of long-lived agents that cooperate under one topology and share a queue of tasks.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=swarms,shortName=sw,categories=swarm;swarm-io
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:selectablefield:JSONPath=`.spec.mode`
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Topology",type=string,JSONPath=`.spec.topology`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=`.status.activeAgents`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Coordinator",type=string,JSONPath=`.status.coordinator`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="a swarm gives its name to a Service: use lower-case letters, digits and '-', starting with a letter"
// +kubebuilder:validation:XValidation:rule="self.spec.agents.all(a, size(self.metadata.name) + size(a.type) <= 51)",message="swarm name and agent type together may have at most 51 characters, since pods are named <swarm>-<type>-<ordinal>: shorten one of them"
type Swarm struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the swarm.
	Spec SwarmSpec `json:"spec"`

	// Status is the observed state of the swarm.
	// +optional
	Status SwarmStatus `json:"status,omitempty,omitzero"`
}

// SwarmSpec is the desired state of the swarm.
// +kubebuilder:validation:XValidation:rule="self.minAgents <= self.maxAgents",message="minAgents is above maxAgents: lower minAgents or raise maxAgents"
// +kubebuilder:validation:XValidation:rule="self.topology != 'ring' || self.maxAgents >= 3",message="ring needs maxAgents of 3 or more: raise maxAgents or choose mesh"
// +kubebuilder:validation:XValidation:rule="self.topology != 'star' || self.maxAgents >= 2",message="star needs maxAgents of 2 or more: raise maxAgents or choose mesh"
// +kubebuilder:validation:XValidation:rule="self.topology != 'hierarchical' || self.maxAgents >= 2",message="hierarchical needs maxAgents of 2 or more: raise maxAgents or choose mesh"
// +kubebuilder:validation:XValidation:rule="!has(self.dataSource) || (has(oldSelf.dataSource) && self.dataSource.snapshot == oldSelf.dataSource.snapshot)",message="dataSource counts only when a swarm is created: remove it, or create a new Swarm from that snapshot"
type SwarmSpec struct {
	// Topology is the shape of the graph along which agents talk to each other. Defaults to mesh: each agent talks to all others. ring
	// needs maxAgents of 3 or more, star and hierarchical 2 or more.
	// +kubebuilder:default=mesh
	// +optional
	Topology Topology `json:"topology,omitempty"`

	// Strategy decides how many agents each type gets and which matching agent gets a task. Defaults to balanced: types differ by at most
	// one agent. specialized follows the weights, adaptive follows the demand.
	// +kubebuilder:default=balanced
	// +optional
	Strategy SwarmStrategy `json:"strategy,omitempty"`

	// MinAgents is the number of agents below which the swarm is never scaled. Defaults to 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	MinAgents *int32 `json:"minAgents,omitempty"`

	// MaxAgents is the number of agents above which the swarm is never scaled, 1 to 1000. Defaults to 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	MaxAgents int32 `json:"maxAgents,omitempty"`

	// Replicas is the desired number of agents of all types together, kept between minAgents and maxAgents. Defaults to 1. `kubectl scale`
	// and the HorizontalPodAutoscaler write it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Agents are the agent types. At least one, each type once.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Agents []AgentType `json:"agents"`

	// Mode is what the swarm does with its agents and its queue. Defaults to Running. Paused dispatches nothing new, Draining finishes what
	// runs and then idles, Suspended removes the pods and keeps their volumes.
	// +kubebuilder:default=Running
	// +optional
	Mode SwarmMode `json:"mode,omitempty"`

	// Autoscaling sets the number of agents by the backlog of tasks. Off by default.
	// +kubebuilder:default={}
	// +optional
	Autoscaling SwarmAutoscaling `json:"autoscaling,omitempty,omitzero"`

	// Tasks limits the tasks of this swarm.
	// +kubebuilder:default={}
	// +optional
	Tasks TaskLimits `json:"tasks,omitempty,omitzero"`

	// Spread is the desired split of the agents between spot and on-demand nodes. By default agents run on any node.
	// +optional
	Spread *Spread `json:"spread,omitempty"`

	// DataSource is the snapshot from which a new swarm starts. It is used only at creation.
	// +optional
	DataSource *SwarmDataSource `json:"dataSource,omitempty"`
}

// SwarmStatus is the observed state of the swarm.
type SwarmStatus struct {
	// ObservedGeneration is the generation of the spec that this status is based on.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase summarizes the conditions: Initializing, Running or Terminating.
	// +optional
	Phase SwarmPhase `json:"phase,omitempty"`

	// Replicas is the number of agents that exist.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// ActiveAgents is the number of agents that are linked and ready for work.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	ActiveAgents int32 `json:"activeAgents,omitempty"`

	// ReadyAgents is the number of agents whose pod is Ready.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	ReadyAgents int32 `json:"readyAgents,omitempty"`

	// Selector selects the pods of the swarm, in the format of the scale subresource.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Selector string `json:"selector,omitempty"`

	// Coordinator is the agent that holds the swarm's Lease.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Coordinator string `json:"coordinator,omitempty"`

	// Types counts the agents of each type.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=type
	// +optional
	Types []AgentTypeStatus `json:"types,omitempty"`

	// Tasks counts the tasks of the swarm by state.
	// +optional
	Tasks *TaskCounts `json:"tasks,omitempty"`

	// Epoch is the highest epoch issued in this swarm: the operator's term in the upper 32 bits, a sequence number in the lower. It never
	// decreases, except from one that no operator has issued.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=6917529027641081856
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf || oldSelf >= 4611686022722355200",message="epoch never decreases: read the stored epoch and go on from there"
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// Conditions are Ready, Progressing and Degraded.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SwarmList is a list of swarms.
// +kubebuilder:object:root=true
type SwarmList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Swarm `json:"items"`
}
