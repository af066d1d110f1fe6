package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentPhase summarizes the conditions of an agent.
// +kubebuilder:validation:Enum=Pending;Running;Completed;Failed
type AgentPhase string

// The phases of an agent.
const (
	// AgentPending waits for its pod or its link.
	AgentPending AgentPhase = "Pending"
	// AgentRunning is linked.
	AgentRunning AgentPhase = "Running"
	// AgentCompleted was drained.
	AgentCompleted AgentPhase = "Completed"
	// AgentFailed does not start.
	AgentFailed AgentPhase = "Failed"
)

// Agent is one long-lived worker of a swarm: a pod with a name, a type, capabilities, slots and peers. The Swarm
// controller creates Agents; their names are those of their pods.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=agents,shortName=ag,categories=swarm-io
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.swarmRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.type`
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Swarm",type=string,JSONPath=`.spec.swarmRef.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Slots",type=integer,JSONPath=`.spec.slots`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Linked",type=string,JSONPath=`.status.conditions[?(@.type=="Linked")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Completed",type=integer,JSONPath=`.status.workload.completed`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type Agent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which swarm the agent belongs to and what it offers.
	Spec AgentSpec `json:"spec"`

	// Status is the observed state of the agent.
	// +optional
	Status AgentStatus `json:"status,omitempty,omitzero"`
}

// AgentSpec says which swarm the agent belongs to and what it offers.
type AgentSpec struct {
	// SwarmRef names the swarm of the agent. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="swarmRef cannot change: delete this Agent and create one in the other swarm"
	SwarmRef SwarmReference `json:"swarmRef"`

	// Type is the agent type, as declared in the swarm. It is immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="type cannot change: delete this Agent and create one of the other type"
	Type string `json:"type"`

	// Capabilities are the capabilities that the agent offers to tasks.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$`
	// +listType=set
	// +optional
	Capabilities []string `json:"capabilities,omitempty"`

	// Slots is how many task attempts the agent runs at once. Defaults to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Slots int32 `json:"slots,omitempty"`
}

// AgentStatus is the observed state of the agent.
type AgentStatus struct {
	// ObservedGeneration is the generation of the spec that this status is based on.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase summarizes the conditions: Pending, Running, Completed (after it was drained) or Failed.
	// +optional
	Phase AgentPhase `json:"phase,omitempty"`

	// PodName is the pod that the agent runs in.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PodName string `json:"podName,omitempty"`

	// PodUID is the UID of the pod, which distinguishes it from earlier ones of the same name.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PodUID string `json:"podUID,omitempty"`

	// LinkedPodUID is the UID of the pod whose agent was linked last. It may differ from PodUID: a pod that was deleted by force may still
	// run.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LinkedPodUID string `json:"linkedPodUID,omitempty"`

	// LinkedProcess is the process of that pod: a restarted or a second container has another one. It is empty for agents that do not name
	// their process.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LinkedProcess string `json:"linkedProcess,omitempty"`

	// LeaseSeconds is the longest lease that the agent may have received: how long it continues to work without hearing from the operator.
	// It is raised before a longer lease is sent, and lowered after the longer one is over.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +optional
	LeaseSeconds int32 `json:"leaseSeconds,omitempty"`

	// Peers are the agents that this one may talk to in the swarm's topology, at most the first 64. The ConfigMap of the swarm has the
	// names of all agents, in the order of the topology.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	// +optional
	Peers []string `json:"peers,omitempty"`

	// LastHeartbeat is when the agent was last known to be alive. It is written at most every 30 seconds, and only when that changes what
	// it means.
	// +optional
	LastHeartbeat *metav1.Time `json:"lastHeartbeat,omitempty"`

	// Workload is the current load of the agent.
	// +optional
	Workload *AgentWorkload `json:"workload,omitempty"`

	// Conditions are Ready and Linked.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AgentWorkload is the current load of an agent.
type AgentWorkload struct {
	// Slots is how many attempts the agent reports that it can run at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	Slots int32 `json:"slots"`

	// Running are the attempts that run on the agent now.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +optional
	Running []RunningAttempt `json:"running,omitempty"`

	// Completed is how many attempts succeeded on the agent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=0
	// +optional
	Completed int64 `json:"completed"`

	// Failed is how many attempts failed on the agent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=0
	// +optional
	Failed int64 `json:"failed"`
}

// RunningAttempt is one attempt at a task, or at one of its items, on an agent.
type RunningAttempt struct {
	// Task is the name of the Task.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Task string `json:"task"`

	// Item is the index of the item, from 0. Absent for a task without items.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=999999
	// +optional
	Item *int32 `json:"item,omitempty"`

	// Attempt is the number of the attempt, from 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// Progress of the attempt, 0 to 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Progress int32 `json:"progress"`
}

// AgentList is a list of agents.
// +kubebuilder:object:root=true
type AgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Agent `json:"items"`
}
