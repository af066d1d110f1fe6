package task

// Permissions of the Task controller. docs/reference/rbac.md explains each line; make manifests generates the role.
//
// +kubebuilder:rbac:groups=swarm.io,resources=swarms,verbs=get;list;watch
// +kubebuilder:rbac:groups=swarm.io,resources=tasks,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=swarm.io,resources=tasks/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
