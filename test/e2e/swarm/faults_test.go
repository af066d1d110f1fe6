package swarm

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/harm"
)

// leader is the pod of the operator that leads, "" when nobody does.
func leader(ctx context.Context) string {
	lease := &coordinationv1.Lease{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: system, Name: "swarm-operator"}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return name
}

// bodyOf is the processes of a pod.
func bodyOf(ctx context.Context, in, pod string) harm.Body {
	GinkgoHelper()
	found := &corev1.Pod{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: in, Name: pod}, found)).To(Succeed())
	return harm.Of(found)
}
