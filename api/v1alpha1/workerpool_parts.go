package v1alpha1

// WorkloadKind is a kind whose pods can be workers.
// +kubebuilder:validation:Enum=StatefulSet;Deployment
type WorkloadKind string

// The kinds of workload.
const (
	WorkloadStatefulSet WorkloadKind = "StatefulSet"
	WorkloadDeployment  WorkloadKind = "Deployment"
)

// WorkloadReference names a StatefulSet or Deployment in the same namespace.
type WorkloadReference struct {
	// Kind is StatefulSet (default) or Deployment.
	// +kubebuilder:default=StatefulSet
	// +optional
	Kind WorkloadKind `json:"kind,omitempty"`

	// Name of the workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// JobQoS says whether a job shares its worker with other jobs.
// +kubebuilder:validation:Enum=Shared;Dedicated
type JobQoS string

// The classes of jobs.
const (
	// JobShared runs beside other jobs.
	JobShared JobQoS = "Shared"
	// JobDedicated has its own worker.
	JobDedicated JobQoS = "Dedicated"
)

// Job is standing work that exactly one worker owns.
type Job struct {
	// Name of the job, as the worker knows it, without line breaks and without spaces at either end.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\S(.*\S)?$`
	Name string `json:"name"`

	// Weight is how much the job counts for the balance and the capacity of workers. Defaults to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=1
	// +optional
	Weight int32 `json:"weight,omitempty"`

	// QoS is Shared (default) or Dedicated, which gives the job its own worker.
	// +kubebuilder:default=Shared
	// +optional
	QoS JobQoS `json:"qos,omitempty"`
}

// JobSource is a source of more jobs.
type JobSource struct {
	// ConfigMapKeyRef takes jobs from a ConfigMap: a YAML document with a list under jobs, or one job per line.
	ConfigMapKeyRef ConfigMapKey `json:"configMapKeyRef"`
}

// ConfigLayout is how the assignment is divided into ConfigMaps.
// +kubebuilder:validation:Enum=Shared;PerWorker
type ConfigLayout string

// The layouts.
const (
	LayoutShared    ConfigLayout = "Shared"
	LayoutPerWorker ConfigLayout = "PerWorker"
)

// ConfigAdoption says whether a ConfigMap that the operator did not create may be taken over.
// +kubebuilder:validation:Enum=Never;Always
type ConfigAdoption string

// The adoption policies.
const (
	AdoptNever  ConfigAdoption = "Never"
	AdoptAlways ConfigAdoption = "Always"
)

// PoolConfig is the ConfigMap from which workers read their jobs.
type PoolConfig struct {
	// Name of the ConfigMap. Defaults to the name of the workload followed by -config.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="config.name cannot change, since pods mount the ConfigMap and it says who holds what: delete this WorkerPool and create another"
	Name string `json:"name,omitempty"`

	// Key inside the ConfigMap's data. Defaults to config.yml.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:default=config.yml
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="config.key cannot change, since pods mount the ConfigMap and it says who holds what: delete this WorkerPool and create another"
	Key string `json:"key,omitempty"`

	// Layout is Shared (default), one ConfigMap for all, or PerWorker for large pools.
	// +kubebuilder:default=Shared
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="config.layout cannot change, since pods mount the ConfigMap and it says who holds what: delete this WorkerPool and create another"
	Layout ConfigLayout `json:"layout,omitempty"`

	// Adopt says whether an existing ConfigMap that is not the operator's is taken over: Never (default) or Always.
	// +kubebuilder:default=Never
	// +optional
	Adopt ConfigAdoption `json:"adopt,omitempty"`
}

// PoolFailover is what happens to the jobs of a worker that is not ready.
type PoolFailover struct {
	// AfterSeconds is how long a worker must have been not ready before it is evicted; its jobs move when its pod is gone. Defaults to 300.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=300
	// +optional
	AfterSeconds int32 `json:"afterSeconds,omitempty"`

	// MaxPercent of the workers may fail over at once; above that the pool freezes and reports it. Defaults to 25.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=25
	// +optional
	MaxPercent int32 `json:"maxPercent,omitempty"`
}

// RefreshPolicy is how workers load a new list.
// +kubebuilder:validation:Enum=HotReload;Restart;Auto
type RefreshPolicy string

// The refresh policies.
const (
	// RefreshHotReload relies on workers to load the file themselves.
	RefreshHotReload RefreshPolicy = "HotReload"
	// RefreshRestart evicts the workers whose list changed.
	RefreshRestart RefreshPolicy = "Restart"
	// RefreshAuto waits for the acknowledgement and restarts after the deadline.
	RefreshAuto RefreshPolicy = "Auto"
)

// PoolRefresh is how workers load a new list.
type PoolRefresh struct {
	// Policy is Auto (default): wait for the acknowledgement and restart after the deadline; HotReload or Restart.
	// +kubebuilder:default=Auto
	// +optional
	Policy RefreshPolicy `json:"policy,omitempty"`

	// Acknowledge is how to query the version that a worker has loaded. Without it, the version is assumed to be loaded after the deadline.
	// +optional
	Acknowledge *PoolAcknowledge `json:"acknowledge,omitempty"`

	// DeadlineSeconds is how long a worker has to load a new list. Defaults to 60.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=60
	// +optional
	DeadlineSeconds int32 `json:"deadlineSeconds,omitempty"`

	// MaxUnavailable is how many workers may be restarting at once. Defaults to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=1
	// +optional
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
}

// PoolAcknowledge is how to query the version that a worker has loaded.
type PoolAcknowledge struct {
	// HTTPGet queries over HTTP at the pod's address.
	HTTPGet AcknowledgeHTTPGet `json:"httpGet"`
}

// AcknowledgeHTTPGet queries a worker over HTTP; the response is a JSON object with worker, podUID, version and config.
type AcknowledgeHTTPGet struct {
	// Port on the pod's address.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// Path of the request. Defaults to /internal/version.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	// +kubebuilder:default="/internal/version"
	// +optional
	Path string `json:"path,omitempty"`
}
