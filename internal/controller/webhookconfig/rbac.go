package webhookconfig

// Permissions of the controllers of the webhook configuration. docs/reference/rbac.md explains each line; make manifests generates the
// role. A right to list or watch is bound to a name when the request selects by it, as the cache does.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=swarm-operator,verbs=get;list;watch;patch
