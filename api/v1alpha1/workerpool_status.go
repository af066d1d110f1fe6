package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PoolPhase summarizes the conditions of a pool.
// +kubebuilder:validation:Enum=Pending;Converging;Converged;Degraded
type PoolPhase string

// The phases of a pool.
const (
	// PoolPending has no workload or no workers yet.
	PoolPending PoolPhase = "Pending"
	// PoolConverging waits for workers to acknowledge.
	PoolConverging PoolPhase = "Converging"
	// PoolConverged has every job on its worker.
	PoolConverged PoolPhase = "Converged"
	// PoolDegraded has jobs that no worker can take, or a frozen failover.
	PoolDegraded PoolPhase = "Degraded"
)

// WorkerPoolStatus is the observed state of the pool.
// +kubebuilder:validation:XValidation:rule="!has(self.convergedRevision) || (has(self.revision) && self.convergedRevision <= self.revision)",message="convergedRevision is above revision: a revision converges only after it was made"
type WorkerPoolStatus struct {
	// ObservedGeneration is the generation of the spec that this status is based on.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase summarizes the conditions: Pending, Converging, Converged or Degraded.
	// +optional
	Phase PoolPhase `json:"phase,omitempty"`

	// Size is the number of workers that take part.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Size int32 `json:"size"`

	// ExpectedSize is the desired number of workers of the workload.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ExpectedSize int32 `json:"expectedSize"`

	// Selector selects the pods of the pool, in the format of the scale subresource.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Selector string `json:"selector,omitempty"`

	// Jobs is the number of jobs.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Jobs int32 `json:"jobs"`

	// Source says which ConfigMaps the jobs were read from, and in which state.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Source []JobSourceStatus `json:"source,omitempty"`

	// Version is the version last published in the config. It never decreases, except from a number that no pool reaches.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740992
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf || oldSelf >= 4503599627370496",message="version never decreases: read the published version and go on from there"
	// +optional
	Version int64 `json:"version"`

	// Revision numbers the plans. It never decreases, except from a number that no pool reaches.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740992
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf || oldSelf >= 4503599627370496",message="revision never decreases: a rollback is a new revision with earlier content"
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// ConvergedRevision is the latest revision that every affected worker has acknowledged. It never decreases, except from a number that
	// no pool reaches.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740992
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf || oldSelf >= 4503599627370496",message="convergedRevision never decreases: leave it as it is until the next revision has converged"
	// +optional
	ConvergedRevision int64 `json:"convergedRevision,omitempty"`

	// Workers are the workers and their progress; in a pool of more than 100 workers only those that need attention, at most 100.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	Workers []WorkerStatus `json:"workers,omitempty"`

	// Unassigned are the names of jobs that no worker can take, at most 100; the Degraded condition says how many and why.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	Unassigned []string `json:"unassigned,omitempty"`

	// Conditions are Ready, Converged and Degraded.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// JobSourceStatus is the state of a ConfigMap when jobs were read from it.
type JobSourceStatus struct {
	// Name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// ResourceVersion of the ConfigMap.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// Hash of the content that was read.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Hash string `json:"hash,omitempty"`
}

// Acknowledgement says whether a worker has loaded its list.
// +kubebuilder:validation:Enum=Waiting;Acknowledged;Assumed
type Acknowledgement string

// The acknowledgements.
const (
	// AckWaiting has not acknowledged yet.
	AckWaiting Acknowledgement = "Waiting"
	// AckReceived was acknowledged by the worker itself.
	AckReceived Acknowledgement = "Acknowledged"
	// AckAssumed is for a worker that cannot be queried: the deadline has passed or its pod was restarted.
	AckAssumed Acknowledgement = "Assumed"
)

// WorkerState is the state of a worker in the pool.
// +kubebuilder:validation:Enum=Joining;Ready;NotReady;Leaving
type WorkerState string

// The states of a worker.
const (
	WorkerJoining  WorkerState = "Joining"
	WorkerReady    WorkerState = "Ready"
	WorkerNotReady WorkerState = "NotReady"
	WorkerLeaving  WorkerState = "Leaving"
)

// WorkerStatus is one worker and its progress.
type WorkerStatus struct {
	// Name of the worker: its pod's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Jobs is the number of jobs on the worker's list.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:default=0
	// +optional
	Jobs int32 `json:"jobs"`

	// Revision in which the worker's list last changed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740992
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// Acknowledged is Waiting, Acknowledged by the worker itself, or Assumed if it cannot be queried.
	// +optional
	Acknowledged Acknowledgement `json:"acknowledged,omitempty"`

	// State of the worker: Joining, Ready, NotReady or Leaving.
	// +optional
	State WorkerState `json:"state,omitempty"`
}
