// Package build builds objects for unit tests. Fields that a test does not set have the values of an ordinary object.
package build

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// CapacityType is the label by which Settings distinguishes spot from on-demand nodes.
const CapacityType = "karpenter.sh/capacity-type"

// Noon is the creation time of pods.
var Noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// Web is a Deployment and DB a StatefulSet.
var (
	Web = workload.Key{Kind: v1alpha1.WorkloadDeployment, NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}
	DB  = workload.Key{Kind: v1alpha1.WorkloadStatefulSet, NamespacedName: types.NamespacedName{Namespace: "shop", Name: "db"}}
)

// Settings returns settings with one label for each capacity type.
func Settings() snapshot.Settings {
	return snapshot.Settings{
		Prefix: v1alpha1.Prefix, Spot: []snapshot.Label{{Key: CapacityType, Value: "spot"}},
		OnDemand: []snapshot.Label{{Key: CapacityType, Value: "on-demand"}},
	}
}

// Pod returns a pod of Web, created from the template with that hash.
func Pod(name, hash string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Web.Namespace, Name: name, Annotations: annotations, Labels: map[string]string{"pod-template-hash": hash},
			CreationTimestamp: metav1.Time{Time: Noon},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: Web.Name + "-" + hash,
				Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "some-node"},
	}
}
