package workerpool

// What the controller of WorkerPools may do. docs/rbac.md says why, line by line; make manifests turns it into a role.
//
// +kubebuilder:rbac:groups=swarm.io,resources=workerpools,verbs=get;list;watch
// +kubebuilder:rbac:groups=swarm.io,resources=workerpools/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets;deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets/scale;deployments/scale,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get
