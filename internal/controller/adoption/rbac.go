package adoption

// What the controller of labelled StatefulSets may do. docs/rbac.md says why, line by line; make manifests turns it into a role.
//
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=swarm.io,resources=workerpools,verbs=get;list;watch;create;delete
