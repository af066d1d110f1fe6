package agent

// What the controller of Agents may do. docs/rbac.md says why, line by line; make manifests turns it into a role.
//
// +kubebuilder:rbac:groups=swarm.io,resources=swarms;agents,verbs=get;list;watch
// +kubebuilder:rbac:groups=swarm.io,resources=agents/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
