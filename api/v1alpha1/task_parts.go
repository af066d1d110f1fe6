package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// PayloadSource names where a payload comes from.
type PayloadSource struct {
	// ConfigMapKeyRef takes the value of one key of a ConfigMap, which must be a JSON object.
	ConfigMapKeyRef ConfigMapKey `json:"configMapKeyRef"`
}

// TaskItems are the items of an array task, from exactly one source.
//
// The elements of list may be any JSON, so list has no type and CEL cannot see it: the rules count the fields instead of naming it.
//
// +kubebuilder:validation:XValidation:rule="size(dyn(self)) == 1",message="items needs exactly one of count, list and configMapKeyRef: keep the one that describes the items"
// +kubebuilder:validation:XValidation:rule="has(self.count) == has(oldSelf.count) && (!has(self.count) || self.count == oldSelf.count)",message="items.count cannot change: create a new Task"
// +kubebuilder:validation:XValidation:rule="has(self.configMapKeyRef) == has(oldSelf.configMapKeyRef) && (!has(self.configMapKeyRef) || self.configMapKeyRef == oldSelf.configMapKeyRef)",message="items.configMapKeyRef cannot change: create a new Task"
type TaskItems struct {
	// Count is the number of items; each gets its index, from 0, and the same payload.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Count int32 `json:"count,omitempty"`

	// List are the items themselves, each any JSON.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000000
	// +listType=atomic
	// +optional
	List []apiextensionsv1.JSON `json:"list,omitempty"`

	// ConfigMapKeyRef takes the items from a ConfigMap, one JSON per line.
	// +optional
	ConfigMapKeyRef *ConfigMapKey `json:"configMapKeyRef,omitempty"`
}

// TaskDependency names a task that must complete first.
type TaskDependency struct {
	// Task is the name of a Task of the same swarm.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Task string `json:"task"`
}

// TaskRetry is what happens after a failed attempt. The loss of an agent is not a failure of the task and costs no retry.
// +kubebuilder:validation:XValidation:rule="!has(self.initialSeconds) || !has(self.maxSeconds) || self.initialSeconds <= self.maxSeconds",message="retry.initialSeconds is above retry.maxSeconds: lower initialSeconds or raise maxSeconds"
type TaskRetry struct {
	// Limit is how many times a failed attempt is retried. Defaults to 3, 0 means never.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=3
	// +optional
	Limit *int32 `json:"limit,omitempty"`

	// InitialSeconds is the delay before the first retry. Defaults to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=1
	// +optional
	InitialSeconds int32 `json:"initialSeconds,omitempty"`

	// Factor by which the delay grows with every retry. Defaults to 2.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=2
	// +optional
	Factor int32 `json:"factor,omitempty"`

	// MaxSeconds is the longest delay. Defaults to 60.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=60
	// +optional
	MaxSeconds int32 `json:"maxSeconds,omitempty"`

	// NonRetryable are reasons after which the task fails at once.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$`
	// +listType=set
	// +optional
	NonRetryable []string `json:"nonRetryable,omitempty"`
}

// TaskTimeouts end a task that takes too long.
// +kubebuilder:validation:XValidation:rule="!has(self.totalSeconds) || !has(self.queueSeconds) || self.queueSeconds <= self.totalSeconds",message="timeouts.queueSeconds is above totalSeconds and would never count: lower queueSeconds or raise totalSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.totalSeconds) || !has(self.runSeconds) || self.runSeconds <= self.totalSeconds",message="timeouts.runSeconds is above totalSeconds and would never count: lower runSeconds or raise totalSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.runSeconds) || !has(self.heartbeatSeconds) || self.heartbeatSeconds <= self.runSeconds",message="timeouts.heartbeatSeconds is above runSeconds and would never count: lower heartbeatSeconds or raise runSeconds"
type TaskTimeouts struct {
	// QueueSeconds is the longest wait for the first attempt.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	QueueSeconds int32 `json:"queueSeconds,omitempty"`

	// RunSeconds is the longest run of one attempt.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	RunSeconds int32 `json:"runSeconds,omitempty"`

	// TotalSeconds is the longest time from creation to the end, including all waits and retries.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	TotalSeconds int32 `json:"totalSeconds,omitempty"`

	// HeartbeatSeconds is the longest time without a progress report of your code. After that the attempt is ended.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	HeartbeatSeconds int32 `json:"heartbeatSeconds,omitempty"`
}
