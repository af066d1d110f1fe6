package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PoolStrategy is how jobs are distributed over workers.
// +kubebuilder:validation:Enum=Sticky;Contiguous;Hashed
type PoolStrategy string

// The strategies of a pool.
const (
	PoolSticky     PoolStrategy = "Sticky"
	PoolContiguous PoolStrategy = "Contiguous"
	PoolHashed     PoolStrategy = "Hashed"
)

// PoolHandoff is how a job moves to another worker.
// +kubebuilder:validation:Enum=Exclusive;Overlap;BestEffort
type PoolHandoff string

// The hand-off policies.
const (
	// HandoffExclusive assigns a job only after its former worker has acknowledged the release.
	HandoffExclusive PoolHandoff = "Exclusive"
	// HandoffOverlap assigns a job before its former worker releases it.
	HandoffOverlap PoolHandoff = "Overlap"
	// HandoffBestEffort releases and assigns a job in one write.
	HandoffBestEffort PoolHandoff = "BestEffort"
)

// PoolMode is what a pool does.
// +kubebuilder:validation:Enum=Running;Paused
type PoolMode string

// The modes of a pool.
const (
	PoolRunning PoolMode = "Running"
	PoolPaused  PoolMode = "Paused"
)

// WorkerPool is an existing StatefulSet or Deployment, plus the standing jobs that its pods share: every job on exactly one worker.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=workerpools,shortName=wp,categories=swarm-io
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.size,selectorpath=.status.selector
// +kubebuilder:selectablefield:JSONPath=`.spec.workers.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.workers.name`
// +kubebuilder:printcolumn:name="Workers",type=string,JSONPath=`.spec.workers.name`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Expected",type=integer,JSONPath=`.status.expectedSize`
// +kubebuilder:printcolumn:name="Jobs",type=integer,JSONPath=`.status.jobs`
// +kubebuilder:printcolumn:name="Version",type=integer,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Converged",type=string,JSONPath=`.status.conditions[?(@.type=="Converged")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="a pool's name is used as a label value: shorten it to 63 characters or fewer"
type WorkerPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec names the workers and their jobs.
	Spec WorkerPoolSpec `json:"spec"`

	// Status is the observed state of the pool.
	// +optional
	Status WorkerPoolStatus `json:"status,omitempty,omitzero"`
}

// WorkerPoolSpec names the workers and their jobs. With neither jobs nor jobsFrom the pool is an empty placeholder.
// +kubebuilder:validation:XValidation:rule="!has(self.imbalancePercent) || self.strategy == 'Hashed'",message="imbalancePercent belongs to strategy Hashed: remove it or choose Hashed"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !has(self.config.layout) || self.config.layout != 'PerWorker' || !has(self.workers.kind) || self.workers.kind == 'StatefulSet'",message="config.layout PerWorker needs workers of kind StatefulSet, whose names are known before their pods are made: choose StatefulSet, or layout Shared"
type WorkerPoolSpec struct {
	// Workers names the workload. It is immutable: the operator knows only for the pods of one workload which jobs they may hold, so after
	// a change two workers could hold the same job.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="workers cannot change, since jobs could end up on two workers: delete this WorkerPool and create one for the other workload"
	Workers WorkloadReference `json:"workers"`

	// Replicas lets the pool scale the workload, draining jobs off the last workers first. Without it, scale
	// the workload itself, and the pool follows.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Jobs are the standing jobs, each name once. Longer lists belong in ConfigMaps named by jobsFrom.
	// +kubebuilder:validation:MaxItems=10000
	// +listType=map
	// +listMapKey=name
	// +optional
	Jobs []Job `json:"jobs,omitempty"`

	// JobsFrom are sources of more jobs, read in this order after jobs.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	JobsFrom []JobSource `json:"jobsFrom,omitempty"`

	// Strategy is how jobs are distributed over workers. Defaults to Sticky: exact balance and the fewest moves. Contiguous keeps list
	// order at the price of many moves; Hashed needs no history.
	// +kubebuilder:default=Sticky
	// +optional
	Strategy PoolStrategy `json:"strategy,omitempty"`

	// ImbalancePercent is how far above the mean a worker may be with strategy Hashed. Defaults to 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImbalancePercent int32 `json:"imbalancePercent,omitempty"`

	// CapacityPerWorker is the maximum weight of the jobs that a worker may hold. Defaults to 0, which means no limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=0
	// +optional
	CapacityPerWorker int32 `json:"capacityPerWorker"`

	// Config is the ConfigMap from which workers read their jobs. Its name, key and layout are immutable: pods mount it, and it records
	// which worker may hold which job.
	// +kubebuilder:validation:XValidation:rule="has(self.name) == has(oldSelf.name)",message="config.name cannot change, since pods mount the ConfigMap and it says who holds what: delete this WorkerPool and create another"
	// +kubebuilder:default={}
	// +optional
	Config PoolConfig `json:"config,omitempty,omitzero"`

	// Handoff is how a job moves to another worker. Defaults to Exclusive: the former worker acknowledges the release before the job is
	// assigned again. Overlap assigns before the release, BestEffort does both in one write.
	// +kubebuilder:default=Exclusive
	// +optional
	Handoff PoolHandoff `json:"handoff,omitempty"`

	// Failover is what happens to the jobs of a worker that is not ready.
	// +kubebuilder:default={}
	// +optional
	Failover PoolFailover `json:"failover,omitempty,omitzero"`

	// Refresh is how workers load a new list.
	// +kubebuilder:default={}
	// +optional
	Refresh PoolRefresh `json:"refresh,omitempty,omitzero"`

	// RevisionHistoryLimit is how many earlier revisions are kept for a rollback. Defaults to 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=10
	// +optional
	RevisionHistoryLimit int32 `json:"revisionHistoryLimit,omitempty"`

	// RollbackTo pins an earlier revision. By default the newest one applies.
	// +kubebuilder:validation:Minimum=1
	// +optional
	RollbackTo int64 `json:"rollbackTo,omitempty"`

	// Mode is Running (default) or Paused, in which no job moves.
	// +kubebuilder:default=Running
	// +optional
	Mode PoolMode `json:"mode,omitempty"`
}

// ConfigName returns the name of the ConfigMap from which workers read their jobs. With layout PerWorker it is the prefix of the names.
func (p *WorkerPool) ConfigName() string {
	if p.Spec.Config.Name != "" {
		return p.Spec.Config.Name
	}
	return p.Spec.Workers.Name + "-config"
}

// ConfigKey returns the key in these ConfigMaps.
func (p *WorkerPool) ConfigKey() string { return cmp.Or(p.Spec.Config.Key, "config.yml") }

// ConfigNameOf returns the name of a worker's own ConfigMap with layout PerWorker.
func (p *WorkerPool) ConfigNameOf(worker string) string { return p.ConfigName() + "-" + worker }

// WorkerPoolList is a list of worker pools.
// +kubebuilder:object:root=true
type WorkerPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WorkerPool `json:"items"`
}
