package main

import "slices"

// An exception is a right that is not as others.
type exception struct {
	group, resource string
	verbs           []string // none: all
	why             string
}

// matches reports whether a rule of one resource is about it. The group alone stands for all of its resources.
func (e exception) matches(one rule) bool {
	return one.APIGroups[0] == e.group && (e.resource == "" || one.Resources[0] == e.resource)
}

// of are the verbs that are left.
func (e exception) of(verbs []string) []string {
	if len(e.verbs) == 0 {
		return nil
	}
	return slices.DeleteFunc(verbs, func(verb string) bool { return slices.Contains(e.verbs, verb) })
}

const (
	belongsToTheCluster = "belongs to no namespace"
	onlyForSpread       = "only spread needs it, which needs nodes"
)

// leftOut are rights that a Role cannot give, or that nothing uses which is left.
var leftOut = []exception{
	{"", "namespaces", nil, belongsToTheCluster},
	{"", "nodes", nil, belongsToTheCluster},
	{"", "persistentvolumes", nil, belongsToTheCluster},
	{"admissionregistration.k8s.io", "mutatingwebhookconfigurations", nil, belongsToTheCluster},
	{"authentication.k8s.io", "tokenreviews", nil, belongsToTheCluster},
	{"authorization.k8s.io", "subjectaccessreviews", nil, belongsToTheCluster},
	{"", "persistentvolumeclaims", nil, onlyForSpread},
	{"policy", "poddisruptionbudgets", nil, onlyForSpread},
	{"", "pods", []string{"delete"}, onlyForSpread},
	{"apps", "deployments", []string{"patch"}, onlyForSpread},
}

// adminLacks are rights that the ClusterRole admin of Kubernetes does not have, in all versions that we work with. Users cannot grant
// rights that they do not have.
var adminLacks = []exception{
	{"swarm.io", "", nil, "no version knows our kinds"},
	{"apps", "controllerrevisions", nil, "may be read, and not written"},
	{"coordination.k8s.io", "leases", nil, "not in older versions"},
	{"events.k8s.io", "events", nil, "not in older versions"},
}
