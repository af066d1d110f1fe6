package main

import "slices"

// An exception is a right that is not as others.
type exception struct {
	group, resource string
	verbs           []string // none: all
	reason          string
}

// matches reports whether a rule of one resource is about it. The group alone stands for all of its resources.
func (e exception) matches(one rule) bool {
	return one.APIGroups[0] == e.group && (e.resource == "" || one.Resources[0] == e.resource)
}

// remainingVerbs are the verbs that are left.
func (e exception) remainingVerbs(verbs []string) []string {
	if len(e.verbs) == 0 {
		return nil
	}
	return slices.DeleteFunc(verbs, func(verb string) bool { return slices.Contains(e.verbs, verb) })
}

const (
	reasonClusterScoped = "belongs to no namespace"
	reasonSpreadOnly    = "only spread needs it, which needs nodes"
)

// excludedRights are rights that a Role cannot give, or that nothing uses which is left.
var excludedRights = []exception{
	{"", "namespaces", nil, reasonClusterScoped},
	{"", "nodes", nil, reasonClusterScoped},
	{"", "persistentvolumes", nil, reasonClusterScoped},
	{"admissionregistration.k8s.io", "mutatingwebhookconfigurations", nil, reasonClusterScoped},
	{"authentication.k8s.io", "tokenreviews", nil, reasonClusterScoped},
	{"authorization.k8s.io", "subjectaccessreviews", nil, reasonClusterScoped},
	{"", "persistentvolumeclaims", nil, reasonSpreadOnly},
	{"policy", "poddisruptionbudgets", nil, reasonSpreadOnly},
	{"", "pods", []string{"delete"}, reasonSpreadOnly},
	{"apps", "deployments", []string{"patch"}, reasonSpreadOnly},
}

// tenantExtraRights are rights that the ClusterRole admin of Kubernetes does not have, in all versions that we work with. Users cannot
// grant rights that they do not have.
var tenantExtraRights = []exception{
	{"swarm.io", "", nil, "no version knows our kinds"},
	{"apps", "controllerrevisions", nil, "may be read, and not written"},
	{"coordination.k8s.io", "leases", nil, "not in older versions"},
	{"events.k8s.io", "events", nil, "not in older versions"},
}
