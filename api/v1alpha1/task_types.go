package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TaskPriority is the priority class of a waiting task.
// +kubebuilder:validation:Enum=low;medium;high;critical
type TaskPriority string

// The priorities, lowest first.
const (
	PriorityLow      TaskPriority = "low"
	PriorityMedium   TaskPriority = "medium"
	PriorityHigh     TaskPriority = "high"
	PriorityCritical TaskPriority = "critical"
)

// TaskStrategy is how the items of a task are run over time.
// +kubebuilder:validation:Enum=parallel;sequential;adaptive
type TaskStrategy string

// The strategies of a task.
const (
	// TaskParallel runs up to parallelism items at once.
	TaskParallel TaskStrategy = "parallel"
	// TaskSequential runs one item at a time, in order.
	TaskSequential TaskStrategy = "sequential"
	// TaskAdaptive starts with one item, doubles on success and halves on failure.
	TaskAdaptive TaskStrategy = "adaptive"
)

// TaskPreemption is whether a task may take the slot of another.
// +kubebuilder:validation:Enum=Never;LowerPriority
type TaskPreemption string

// The ways to preempt.
const (
	PreemptNever         TaskPreemption = "Never"
	PreemptLowerPriority TaskPreemption = "LowerPriority"
)

// TaskDesire is the state that the user requests for a task.
// +kubebuilder:validation:Enum=Run;Suspended;Cancelled
type TaskDesire string

// The states that users can request.
const (
	TaskRun     TaskDesire = "Run"
	TaskSuspend TaskDesire = "Suspended"
	TaskCancel  TaskDesire = "Cancelled"
)

// Task is finite work for a swarm: one piece, or an array of items.
//
// The two rules about status are at the root, because a rule further down is not evaluated when its part is removed: here they refuse a
// wiped status as well as a changed one.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=tasks,shortName=tk,categories=swarm-io
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.swarmRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.priority`
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Swarm",type=string,JSONPath=`.spec.swarmRef.name`
// +kubebuilder:printcolumn:name="Priority",type=string,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Progress",type=integer,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=`.status.activeAttempts`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:validation:XValidation:rule="!has(self.spec.dependsOn) || self.spec.dependsOn.all(d, d.task != self.metadata.name)",message="a task cannot depend on itself: remove its own name from dependsOn"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || !(oldSelf.status.phase in ['Completed', 'Failed', 'Cancelled']) || (has(self.status) && has(self.status.phase) && self.status.phase == oldSelf.status.phase)",message="a finished task keeps its phase: create a new Task to run the work again"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.epoch) || (has(self.status) && has(self.status.epoch) && self.status.epoch >= oldSelf.status.epoch)",message="epoch never decreases and is never removed: read the stored epoch and go on from there"
type Task struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the work, which agents may do it, and how.
	Spec TaskSpec `json:"spec"`

	// Status is the observed state of the task.
	// +optional
	Status TaskStatus `json:"status,omitempty,omitzero"`
}

// TaskSpec is the work, which agents may do it, and how.
//
// Fields that define the work (payload, items, dependencies, strategy, tenant) are immutable, since attempts may already have used them.
// Fields that only affect the next attempt can change at any time.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.payload) && has(self.payloadFrom))",message="payload and payloadFrom exclude each other: keep one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.minParallel) || has(self.items)",message="minParallel counts items: add items or remove minParallel"
// +kubebuilder:validation:XValidation:rule="!has(self.minParallel) || !has(self.parallelism) || self.minParallel <= self.parallelism",message="minParallel is above parallelism: lower minParallel or raise parallelism"
// +kubebuilder:validation:XValidation:rule="!has(self.minParallel) || !has(self.items) || !has(self.items.count) || self.minParallel <= self.items.count",message="minParallel is above items.count, so the task could never start: lower minParallel"
// +kubebuilder:validation:XValidation:rule="!has(self.minParallel) || self.minParallel == 1 || self.strategy == 'parallel'",message="minParallel needs strategy parallel, since the others start with one item: choose parallel or remove minParallel"
// +kubebuilder:validation:XValidation:rule="has(self.payload) == has(oldSelf.payload) && (!has(self.payload) || self.payload == oldSelf.payload)",message="payload cannot change: create a new Task"
// +kubebuilder:validation:XValidation:rule="has(self.payloadFrom) == has(oldSelf.payloadFrom) && (!has(self.payloadFrom) || self.payloadFrom == oldSelf.payloadFrom)",message="payloadFrom cannot change: create a new Task"
// +kubebuilder:validation:XValidation:rule="has(self.items) == has(oldSelf.items)",message="items cannot be added or removed: create a new Task"
// +kubebuilder:validation:XValidation:rule="has(self.dependsOn) == has(oldSelf.dependsOn) && (!has(self.dependsOn) || self.dependsOn == oldSelf.dependsOn)",message="dependsOn cannot change: create a new Task"
// +kubebuilder:validation:XValidation:rule="has(self.tenant) == has(oldSelf.tenant) && (!has(self.tenant) || self.tenant == oldSelf.tenant)",message="tenant cannot change: create a new Task"
type TaskSpec struct {
	// SwarmRef names the swarm that does the work. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="swarmRef cannot change: create a new Task for the other swarm"
	SwarmRef SwarmReference `json:"swarmRef"`

	// Priority is the priority class of the waiting task: low, medium (default), high or critical.
	// +kubebuilder:default=medium
	// +optional
	Priority TaskPriority `json:"priority,omitempty"`

	// Strategy is how items are run over time. Defaults to parallel: up to parallelism at once. sequential runs one at a time in order;
	// adaptive starts with one, doubles on success and halves on failure. It is immutable.
	// +kubebuilder:default=parallel
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="strategy cannot change: create a new Task"
	// +optional
	Strategy TaskStrategy `json:"strategy,omitempty"`

	// AgentType restricts the task to agents of one type. Defaults to any type.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	AgentType string `json:"agentType,omitempty"`

	// Capabilities that an agent must offer, all of them.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$`
	// +listType=set
	// +optional
	Capabilities []string `json:"capabilities,omitempty"`

	// Tenant is the key of fair queueing. Defaults to the namespace. It is immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$`
	// +optional
	Tenant string `json:"tenant,omitempty"`

	// Payload is any JSON object, passed to your code unchanged. The limit is 8 KiB; a larger one fails the task with reason
	// PayloadTooLarge, and belongs in a ConfigMap named by payloadFrom. It is immutable.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=2048
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Payload *apiextensionsv1.JSON `json:"payload,omitempty"`

	// PayloadFrom takes the payload from another object. It is immutable.
	// +optional
	PayloadFrom *PayloadSource `json:"payloadFrom,omitempty"`

	// Items make this an array task of up to 1,000,000 items. They are immutable.
	// +optional
	Items *TaskItems `json:"items,omitempty"`

	// Parallelism is how many items run at once. Defaults to the number of free slots.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Parallelism int32 `json:"parallelism,omitempty"`

	// MinParallel enables gang scheduling: the task starts only when this many items can start together. Off by default.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MinParallel int32 `json:"minParallel,omitempty"`

	// DependsOn are tasks of the same swarm that must complete first; their results are added to the payload. They are immutable.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=task
	// +optional
	DependsOn []TaskDependency `json:"dependsOn,omitempty"`

	// Retry is what happens after a failed attempt.
	// +kubebuilder:default={}
	// +optional
	Retry TaskRetry `json:"retry,omitempty,omitzero"`

	// Timeouts end a task that takes too long. By default there is no limit.
	// +optional
	Timeouts *TaskTimeouts `json:"timeouts,omitempty"`

	// Preemption is whether the task may take the slot of another: Never (default) or LowerPriority.
	// +kubebuilder:default=Never
	// +optional
	Preemption TaskPreemption `json:"preemption,omitempty"`

	// TTLSecondsAfterFinished is how long the task is kept once finished. Defaults to the setting of its swarm.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// Desired is the requested state of the task: Run (default), Suspended, or Cancelled, which is final.
	// +kubebuilder:default=Run
	// +kubebuilder:validation:XValidation:rule="oldSelf != 'Cancelled' || self == 'Cancelled'",message="a cancelled task stays cancelled: create a new Task"
	// +optional
	Desired TaskDesire `json:"desired,omitempty"`
}

// TaskList is a list of tasks.
// +kubebuilder:object:root=true
type TaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Task `json:"items"`
}
