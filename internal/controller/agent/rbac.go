package agent

// Permissions of the Agent controller. docs/reference/rbac.md explains each line; make manifests generates the role.
//
// +kubebuilder:rbac:groups=swarm.io,resources=swarms;agents,verbs=get;list;watch
// +kubebuilder:rbac:groups=swarm.io,resources=agents/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
