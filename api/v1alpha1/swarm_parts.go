package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// AgentTypeCoordinator is the type whose agents can hold the swarm's Lease.
const AgentTypeCoordinator = "coordinator"

// AgentType describes all agents of one type.
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && size(self.template.spec.containers) > 0",message="template needs a container, which becomes the agent: write template.spec.containers with a name and an image"
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage)",message="storage cannot be added to or removed from an agent type that exists, since a StatefulSet keeps its volume claims: declare a new type"
type AgentType struct {
	// Type is researcher, coder, analyst, coordinator or any other DNS label, each once in a swarm.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Type string `json:"type"`

	// Capabilities are what agents of this type offer; a task goes only to agents that offer all capabilities that it requires.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$`
	// +listType=set
	// +optional
	Capabilities []string `json:"capabilities,omitempty"`

	// Slots is how many task attempts one agent runs at once. Defaults to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Slots int32 `json:"slots,omitempty"`

	// Weight is this type's share of the agents with strategy specialized. Defaults to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Weight int32 `json:"weight,omitempty"`

	// LeaseSeconds is how long an agent continues to work without hearing from the operator. Its work moves to another agent no sooner than
	// that after it was cut off. Work of an agent with a short lease restarts when the leader of the operator changes; status.types warns
	// about that. Defaults to link.agentLease of the operator's configuration, which is 45 s by default.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	// +optional
	LeaseSeconds int32 `json:"leaseSeconds,omitempty"`

	// Storage gives each agent its own volume at /var/lib/swarm. Defaults to no volume.
	// +optional
	Storage *AgentStorage `json:"storage,omitempty"`

	// Runtime is how tasks reach your code. By default the container opens the link itself, with the Go package agent.
	// +optional
	Runtime *AgentRuntime `json:"runtime,omitempty"`

	// Template is an ordinary pod template for agents of this type.
	Template corev1.PodTemplateSpec `json:"template"`
}

// StorageRetention is what happens to the volumes of agents when their swarm is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type StorageRetention string

// The retentions.
const (
	StorageRetain StorageRetention = "Retain"
	StorageDelete StorageRetention = "Delete"
)

// AgentStorage is the volume that each agent of a type gets.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot change, since a StatefulSet keeps its volume claims: declare a new type"
type AgentStorage struct {
	// Size of the volume, for example 1Gi. It is immutable.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="storage size must be above 0: write a size such as 1Gi, or remove storage"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) == 0",message="storage size cannot change, since a StatefulSet keeps its volume claims: declare a new type, or resize the claims themselves"
	Size resource.Quantity `json:"size"`

	// StorageClassName of the volume. Defaults to the default class of the cluster. It is immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`

	// Retention is what happens to the volumes when the swarm is deleted: Retain (default) or Delete. Scaling never deletes a volume.
	// +kubebuilder:default=Retain
	// +optional
	Retention StorageRetention `json:"retention,omitempty"`
}

// AgentRuntime is how tasks reach your code: exactly one of its fields.
// +kubebuilder:validation:XValidation:rule="has(self.exec) != has(self.http)",message="runtime needs exactly one of exec and http: keep the one that your code speaks"
type AgentRuntime struct {
	// Exec starts a command for each attempt, with the payload on standard input and the result on standard output.
	// +optional
	Exec *ExecRuntime `json:"exec,omitempty"`

	// HTTP posts each attempt to a server in the pod.
	// +optional
	HTTP *HTTPRuntime `json:"http,omitempty"`
}

// ExecRuntime starts a command for each attempt.
type ExecRuntime struct {
	// Command is the program and its arguments. No shell is involved.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="size(self[0]) > 0",message="the first word of command is the program: write its path"
	// +listType=atomic
	Command []string `json:"command"`

	// GracePeriodSeconds is the time between SIGTERM and SIGKILL when an attempt is cancelled or drained. Defaults to 30.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:default=30
	// +optional
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`
}

// HTTPRuntime posts each attempt to a server in the pod.
type HTTPRuntime struct {
	// Port on which your code listens, on the pod's loopback address.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// Path of the POST request. Defaults to /task.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	// +kubebuilder:default="/task"
	// +optional
	Path string `json:"path,omitempty"`
}

// AutoscalingMode is what sets the number of agents.
// +kubebuilder:validation:Enum=Off;Backlog
type AutoscalingMode string

// The autoscaling modes.
const (
	AutoscalingOff     AutoscalingMode = "Off"
	AutoscalingBacklog AutoscalingMode = "Backlog"
)

// Switch turns something on or off.
// +kubebuilder:validation:Enum=Off;On
type Switch string

// The positions of a switch.
const (
	SwitchOff Switch = "Off"
	SwitchOn  Switch = "On"
)

// SwarmAutoscaling sets the number of agents by the backlog of tasks.
// +kubebuilder:validation:XValidation:rule="!has(self.predictive) || self.predictive == 'Off' || (has(self.mode) && self.mode == 'Backlog')",message="predictive On needs a backlog to look at: set autoscaling.mode to Backlog"
type SwarmAutoscaling struct {
	// Mode is Off (default) or Backlog. Quote "Off" in YAML, where a bare Off is a boolean.
	// +kubebuilder:default="Off"
	// +optional
	Mode AutoscalingMode `json:"mode,omitempty"`

	// TargetBacklogPerAgent is how many waiting attempts one agent may have before another agent is added. Defaults to 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=5
	// +optional
	TargetBacklogPerAgent int32 `json:"targetBacklogPerAgent,omitempty"`

	// ScaleDownAfterSeconds is how long there must have been too many agents before some are removed. Defaults to 300.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=300
	// +optional
	ScaleDownAfterSeconds *int32 `json:"scaleDownAfterSeconds,omitempty"`

	// Predictive adds agents ahead of a backlog that the history predicts: Off (default) or On. Quote both in YAML.
	// +kubebuilder:default="Off"
	// +optional
	Predictive Switch `json:"predictive,omitempty"`
}

// TaskLimits limits the tasks of a swarm.
type TaskLimits struct {
	// FinishedLimit is how many finished tasks are kept; the oldest are deleted first. Tasks that a finalizer protects do not count.
	// Defaults to 1000.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +kubebuilder:default=1000
	// +optional
	FinishedLimit *int32 `json:"finishedLimit,omitempty"`

	// TTLSecondsAfterFinished is how long a finished task is kept unless the task sets its own value. Defaults to 3600.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:default=3600
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// MaxInFlightPerTenant is how many attempts of one tenant run at once. Defaults to 0, which means no limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	MaxInFlightPerTenant int32 `json:"maxInFlightPerTenant"`
}

// SwarmDataSource names what a new swarm starts from.
type SwarmDataSource struct {
	// Snapshot is the name of a SwarmSnapshot in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Snapshot string `json:"snapshot"`
}

// AgentTypeStatus counts the agents of one type.
type AgentTypeStatus struct {
	// Type whose agents are counted.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	Type string `json:"type"`

	// Desired is the desired number of agents of the type.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	Desired int32 `json:"desired"`

	// Ready is how many of them are linked and ready for work.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +kubebuilder:default=0
	// +optional
	Ready int32 `json:"ready"`

	// Message contains warnings about the type, for example that its lease is too short to survive a change of the operator's leader.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// TaskCounts counts tasks by state.
type TaskCounts struct {
	// Pending tasks wait for a slot, a dependency or a retry.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:default=0
	// +optional
	Pending int32 `json:"pending"`

	// Running tasks have at least one attempt on an agent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:default=0
	// +optional
	Running int32 `json:"running"`

	// Completed tasks have succeeded.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:default=0
	// +optional
	Completed int32 `json:"completed"`

	// Failed tasks failed or were cancelled.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:default=0
	// +optional
	Failed int32 `json:"failed"`
}
