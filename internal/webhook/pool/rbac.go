package pool

// What admission may do. docs/reference/rbac.md says why, line by line; make manifests turns it into roles. A right to list or watch is
// bound to a name when the request selects by it, as the cache does.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=swarm.io,resources=workerpools,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=swarm-operator,verbs=get;list;watch;patch
