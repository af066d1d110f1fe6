package poollabel

// Permissions of the controller of labeled StatefulSets. docs/reference/rbac.md explains each line; make manifests generates the role.
//
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=swarm.io,resources=workerpools,verbs=get;list;watch;create;delete
