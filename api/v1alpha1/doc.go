// Package v1alpha1 defines the kinds of the group swarm.io: Swarm, Agent, Task, WorkerPool and SwarmSnapshot.
//
// It promises that every object that the API server has accepted is well-formed: every list, map, string and number has a bound, rules
// between fields are CEL rules beside the fields, and the API server sets defaults. So all of that holds while the operator is down.
// Labels, annotations, condition types and reasons are declared here and nowhere else.
//
// It never talks to a cluster, reads no clock and contains no behavior except building conditions. A number is a pointer exactly when zero
// means something other than omitting the field.
//
// All kinds are in the category swarm-io. Only Swarm is in the category swarm: kubectl prefers a category to a kind of
// the same name, so that with more kinds in it `kubectl get swarm research` would be an error and `kubectl delete swarm
// --all` would delete them all.
//
// +kubebuilder:object:generate=true
// +groupName=swarm.io
package v1alpha1
