package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SnapshotPhase summarizes the conditions of a snapshot.
// +kubebuilder:validation:Enum=Pending;Capturing;Ready;Failed
type SnapshotPhase string

// The phases of a snapshot.
const (
	SnapshotPending   SnapshotPhase = "Pending"
	SnapshotCapturing SnapshotPhase = "Capturing"
	SnapshotReady     SnapshotPhase = "Ready"
	SnapshotFailed    SnapshotPhase = "Failed"
)

// SwarmSnapshot is the state of a swarm at one moment or, with a schedule, at many: its agents, its unfinished tasks
// and who holds them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=swarmsnapshots,shortName=snap,categories=swarm-io
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.swarmRef.name`
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Swarm",type=string,JSONPath=`.spec.swarmRef.name`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Agents",type=integer,JSONPath=`.status.manifest.agents`
// +kubebuilder:printcolumn:name="Tasks",type=integer,JSONPath=`.status.manifest.tasks`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.status.manifest.bytes`,priority=1
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=`.status.manifest.digest`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type SwarmSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what to capture, when, and where to.
	Spec SwarmSnapshotSpec `json:"spec"`

	// Status is what was captured.
	// +optional
	Status SwarmSnapshotStatus `json:"status,omitempty,omitzero"`
}

// SwarmSnapshotSpec says what to capture, when, and where to.
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(oldSelf.schedule)",message="a single snapshot cannot become a schedule, nor the other way round: create a new SwarmSnapshot"
type SwarmSnapshotSpec struct {
	// SwarmRef names the swarm to capture. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="swarmRef cannot change: create a new SwarmSnapshot for the other swarm"
	SwarmRef SwarmReference `json:"swarmRef"`

	// Schedule captures repeatedly: minute, hour, day of month, month and day of week, in UTC, or one of @hourly, @daily, @weekly, @monthly
	// and @yearly. By default one snapshot is captured immediately.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(hourly|daily|weekly|monthly|yearly)|[^ ]+( [^ ]+){4})$')",message="schedule needs five fields with one space between them (minute hour day month weekday), such as '0 3 * * *', or one of @hourly, @daily, @weekly, @monthly, @yearly"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') || self.split(' ').size() != 5 || self.split(' ')[0].split(',').all(part, part.matches('^([*]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?$'))",message="the first field of schedule is the minute: write 0 to 59 or *, with ranges, lists and /steps as needed"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') || self.split(' ').size() != 5 || self.split(' ')[1].split(',').all(part, part.matches('^([*]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?$'))",message="the second field of schedule is the hour: write 0 to 23 or *, with ranges, lists and /steps as needed"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') || self.split(' ').size() != 5 || self.split(' ')[2].split(',').all(part, part.matches('^([*]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?$'))",message="the third field of schedule is the day of the month: write 1 to 31 or *, with ranges, lists and /steps as needed"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') || self.split(' ').size() != 5 || self.split(' ')[3].split(',').all(part, part.matches('^([*]|(0?[1-9]|1[0-2])(-(0?[1-9]|1[0-2]))?)(/[1-9][0-9]?)?$'))",message="the fourth field of schedule is the month: write 1 to 12 or *, with ranges, lists and /steps as needed"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') || self.split(' ').size() != 5 || self.split(' ')[4].split(',').all(part, part.matches('^([*]|[0-7](-[0-7])?)(/[1-9][0-9]?)?$'))",message="the fifth field of schedule is the day of the week: write 0 to 7 (0 and 7 are Sunday) or *, with ranges, lists and /steps as needed"
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// Keep is how many snapshots of a schedule are kept; the oldest are deleted first. Defaults to 7.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=7
	// +optional
	Keep int32 `json:"keep,omitempty"`

	// Storage is where the parts are stored: exactly one of its fields. Defaults to configMap. It is immutable, since the parts are found
	// only there.
	// +kubebuilder:default={configMap: {}}
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="storage cannot change: create a new SwarmSnapshot"
	// +optional
	Storage SnapshotStorage `json:"storage,omitempty,omitzero"`
}

// SnapshotStorage is where the parts of a snapshot are stored: exactly one of its fields.
// +kubebuilder:validation:XValidation:rule="(has(self.configMap) ? 1 : 0) + (has(self.pvc) ? 1 : 0) + (has(self.s3) ? 1 : 0) == 1",message="storage needs exactly one of configMap, pvc and s3: keep the one where the snapshot should lie"
type SnapshotStorage struct {
	// ConfigMap stores the parts in ConfigMaps in the same namespace; for small swarms.
	// +optional
	ConfigMap *ConfigMapStorage `json:"configMap,omitempty"`

	// PVC stores the parts on a volume.
	// +optional
	PVC *PVCStorage `json:"pvc,omitempty"`

	// S3 stores the parts in an object store with the S3 API.
	// +optional
	S3 *S3Storage `json:"s3,omitempty"`
}

// ConfigMapStorage stores parts in ConfigMaps named after the snapshot. It has no settings.
type ConfigMapStorage struct{}

// PVCStorage stores parts on a volume.
type PVCStorage struct {
	// ClaimName of a PersistentVolumeClaim in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ClaimName string `json:"claimName"`

	// Path of a directory on the volume, relative to its root. Defaults to the root.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(part, part == '..')",message="path is relative to the volume's root: write it without a leading / and without .."
	// +optional
	Path string `json:"path,omitempty"`
}

// S3Storage stores parts in an object store with the S3 API.
type S3Storage struct {
	// Bucket that holds the parts.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][-.a-z0-9]*[a-z0-9]$`
	Bucket string `json:"bucket"`

	// Prefix of the parts' keys. Defaults to none.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[-!_.*'()/a-zA-Z0-9]*$`
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// Endpoint is the address of the store, with http:// or https://. Defaults to the address of the region.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^\s/]+/?$`
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// Region of the bucket. Defaults to us-east-1, which stores other than Amazon's ignore.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Region string `json:"region,omitempty"`

	// CredentialsSecretRef names a Secret with the keys accessKeyID and secretAccessKey.
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef"`
}

// SwarmSnapshotStatus is what was captured.
// +kubebuilder:validation:XValidation:rule="!has(self.phase) || self.phase != 'Ready' || has(self.manifest)",message="a snapshot is Ready only with its manifest: write the manifest in the same update"
type SwarmSnapshotStatus struct {
	// ObservedGeneration is the generation of the spec that this status is based on.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase summarizes the conditions: Pending, Capturing, Ready or Failed.
	// +optional
	Phase SnapshotPhase `json:"phase,omitempty"`

	// Manifest summarizes the parts. It is written last, so that a snapshot that has one is complete.
	// +optional
	Manifest *SnapshotManifest `json:"manifest,omitempty"`

	// Conditions are Ready.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SnapshotManifest summarizes the parts of a snapshot.
type SnapshotManifest struct {
	// Digest of the manifest, which holds a digest for every part.
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`

	// Agents is the number of agents captured.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:default=0
	// +optional
	Agents int32 `json:"agents"`

	// Tasks is the number of unfinished tasks captured.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:default=0
	// +optional
	Tasks int32 `json:"tasks"`

	// Bytes is the size of all parts together.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=0
	// +optional
	Bytes int64 `json:"bytes"`
}

// SwarmSnapshotList is a list of snapshots.
// +kubebuilder:object:root=true
type SwarmSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SwarmSnapshot `json:"items"`
}
