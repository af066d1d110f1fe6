package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "swarm.io", Version: "v1alpha1"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(registerKinds)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func registerKinds(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Swarm{}, &SwarmList{},
		&Agent{}, &AgentList{},
		&Task{}, &TaskList{},
		&WorkerPool{}, &WorkerPoolList{},
		&SwarmSnapshot{}, &SwarmSnapshotList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
