package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TaskPhase is the phase of a task. The last three are final.
// +kubebuilder:validation:Enum=Pending;Running;Completed;Failed;Cancelled
type TaskPhase string

// The phases of a task.
const (
	TaskPending   TaskPhase = "Pending"
	TaskRunning   TaskPhase = "Running"
	TaskCompleted TaskPhase = "Completed"
	TaskFailed    TaskPhase = "Failed"
	TaskCancelled TaskPhase = "Cancelled"
)

// Final reports whether the phase can never change again.
func (p TaskPhase) Final() bool {
	return p == TaskCompleted || p == TaskFailed || p == TaskCancelled
}

// TaskStatus is the observed state of the task.
// +kubebuilder:validation:XValidation:rule="(has(self.progress) && self.progress == 100) == (has(self.phase) && self.phase == 'Completed')",message="progress is 100 exactly when the phase is Completed: set both or neither"
type TaskStatus struct {
	// ObservedGeneration is the generation of the spec that this status is based on.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase is the phase of the task. Completed, Failed and Cancelled are final.
	// +optional
	Phase TaskPhase `json:"phase,omitempty"`

	// Reason is the one-word reason why the task waits or failed.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?)?$`
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message describes the reason in a sentence.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`

	// Progress from 0 to 100. It never decreases within an attempt and is 100 exactly when the phase is Completed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Progress int32 `json:"progress,omitempty"`

	// AssignedAgents are the attempts that agents hold now, at most 64 of them; activeAttempts counts all.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	AssignedAgents []AssignedAgent `json:"assignedAgents,omitempty"`

	// ActiveAttempts is how many attempts agents hold now.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	ActiveAttempts int32 `json:"activeAttempts,omitempty"`

	// Attempt is the number of the latest attempt, from 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// Epoch is the epoch of the latest assignment; messages with an older one are refused. It never decreases and is never removed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=6917529027641081856
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// Retries is how many failed attempts were retried.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Retries int32 `json:"retries,omitempty"`

	// Reassignments is how many attempts were given to another agent because theirs was lost. More than 5 fail the task.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Reassignments int32 `json:"reassignments,omitempty"`

	// HandBacks is how many attempts were handed back or declined by their agent since one ran for 10 minutes. They cost no
	// retry, but each waits longer than the one before, and more than 20 fail the task.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	HandBacks int32 `json:"handBacks,omitempty"`

	// Items counts the items of an array task.
	// +optional
	Items *TaskItemsStatus `json:"items,omitempty"`

	// Result is what your code returned, any JSON up to 4 KiB.
	// +optional
	Result *apiextensionsv1.JSON `json:"result,omitempty"`

	// ResultRef says where a larger result is stored.
	// +optional
	ResultRef *ResultReference `json:"resultRef,omitempty"`

	// StartTime is when the first attempt began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// CompletionTime is when the task reached a final phase.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// NextRetryTime is when the task is retried.
	// +optional
	NextRetryTime *metav1.Time `json:"nextRetryTime,omitempty"`

	// Conditions are Ready, which means that the task has succeeded, and Progressing.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AssignedAgent is one attempt that an agent holds.
type AssignedAgent struct {
	// Name of the agent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

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

	// Epoch of the assignment.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=6917529027641081856
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// Since is when the agent was given the attempt.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// PodUID is the UID of the pod of the process that was given the attempt.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PodUID string `json:"podUID,omitempty"`

	// Process is the run of the agent's program that was given the attempt. A container status that names it in its termination message
	// proves that the attempt has ended, to later leaders of the operator as well.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Process string `json:"process,omitempty"`

	// LeaseSeconds is the longest lease that the agent may have received. Without a proof of its end the operator waits this long for the
	// attempt.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +optional
	LeaseSeconds int32 `json:"leaseSeconds,omitempty"`
}

// TaskItemsStatus counts the items of an array task.
type TaskItemsStatus struct {
	// Total is the number of items.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	Total int32 `json:"total"`

	// Completed items have succeeded.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	Completed int32 `json:"completed"`

	// Failed items have used up their retries.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	Failed int32 `json:"failed"`

	// Running items are on an agent now.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	Running int32 `json:"running"`

	// CompletedRanges are the indexes of the completed items, such as "0-311,400".
	// +kubebuilder:validation:MaxLength=262144
	// +kubebuilder:validation:Pattern=`^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$`
	// +optional
	CompletedRanges string `json:"completedRanges,omitempty"`
}

// ResultReference says where a result is stored that is too large for the status.
type ResultReference struct {
	// ConfigMap is the name of the ConfigMap that holds the result, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ConfigMap string `json:"configMap"`
}
