package operator

// What the operator may do, whatever its controllers are. docs/reference/rbac.md says why, line by line; make manifests turns it into
// roles.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// In its own namespace. A right to create cannot be bound to a name, since the name is not known to the authorizer by then.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=swarm-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=swarm-system,resources=leases,resourceNames=swarm-operator,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=swarm-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=swarm-system,resources=secrets,resourceNames=swarm-operator-link,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",namespace=swarm-system,resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=swarm-system,resources=configmaps,resourceNames=swarm-operator-ca,verbs=get;update
