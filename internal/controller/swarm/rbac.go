package swarm

// Permissions of the Swarm controller. docs/reference/rbac.md explains each line; make manifests generates the role.
//
// +kubebuilder:rbac:groups=swarm.io,resources=swarms,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=swarm.io,resources=swarms/status,verbs=patch
// +kubebuilder:rbac:groups=swarm.io,resources=swarms/finalizers,verbs=update
// +kubebuilder:rbac:groups=swarm.io,resources=agents,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=swarm.io,resources=tasks,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch
