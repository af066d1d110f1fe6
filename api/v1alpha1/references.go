package v1alpha1

// SwarmReference names a Swarm in the same namespace.
type SwarmReference struct {
	// Name of the Swarm, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// ConfigMapKey names one key of a ConfigMap in the same namespace.
// +structType=atomic
type ConfigMapKey struct {
	// Name of the ConfigMap, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`

	// Key inside the ConfigMap's data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
}

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// Name of the Secret, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// Spread is the desired split of replicas between spot and on-demand nodes. minOnDemand takes precedence; if neither number is set, nothing
// changes.
type Spread struct {
	// MinOnDemand is the number of replicas that always stay on on-demand nodes. Defaults to none.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MinOnDemand *int32 `json:"minOnDemand,omitempty"`

	// SpotPercentage is the desired share of replicas on spot nodes, 0 to 100. By default all replicas above minOnDemand may run on spot
	// nodes.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	SpotPercentage *int32 `json:"spotPercentage,omitempty"`
}
