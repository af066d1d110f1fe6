package pool

// Permissions of the webhook for pods of pools. docs/reference/rbac.md explains each line; make manifests generates the role.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
// +kubebuilder:rbac:groups=swarm.io,resources=workerpools,verbs=get;list;watch
