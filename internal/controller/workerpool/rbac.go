package workerpool

// Permissions of the WorkerPool controller. docs/reference/rbac.md explains each line; make manifests generates the role.
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
