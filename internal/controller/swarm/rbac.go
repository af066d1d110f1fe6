package swarm

// What the controller of Swarms may do. docs/rbac.md says why, line by line; make manifests turns it into a role.
//
// +kubebuilder:rbac:groups=swarm.io,resources=swarms,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=swarm.io,resources=swarms/status,verbs=patch
// +kubebuilder:rbac:groups=swarm.io,resources=swarms/finalizers,verbs=update
// +kubebuilder:rbac:groups=swarm.io,resources=agents,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=swarm.io,resources=tasks,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch
