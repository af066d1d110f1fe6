// Package v1alpha1 holds the kinds of the group swarm.io: Swarm, Agent, Task, WorkerPool and SwarmSnapshot.
//
// It promises that whatever the API server has accepted is well-formed: every list, map, string and number of ours has
// a bound, every rule between fields is written in CEL beside the fields, and defaults are filled in by the server, so
// all of that holds while the operator is down. Labels, annotations, condition types and reasons are declared here and
// nowhere else.
//
// It never talks to a cluster, reads no clock and contains no behaviour beyond building a condition. A number is a
// pointer exactly when zero is a wish of its own that differs from leaving the field out.
//
// All kinds are in the category swarm-io. Only Swarm is in the category swarm: kubectl prefers a category to a kind of
// the same name, so that with more kinds in it `kubectl get swarm research` would be an error and `kubectl delete swarm
// --all` would delete them all.
//
// +kubebuilder:object:generate=true
// +groupName=swarm.io
package v1alpha1
