package task

// What the controller of Tasks may do. docs/rbac.md says why, line by line; make manifests turns it into a role.
//
// +kubebuilder:rbac:groups=swarm.io,resources=swarms,verbs=get;list;watch
// +kubebuilder:rbac:groups=swarm.io,resources=tasks,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=swarm.io,resources=tasks/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
