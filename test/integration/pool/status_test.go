package pool

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = It("[K18/worker-pool] a pool gets its status back when it is wiped", func(ctx SpecContext) {
	s := newStatefulSetPool(ctx, 2, jobsNamed("a b c"))
	s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Jobs = jobsNamed("a b c d") })
	Eventually(s.version).WithContext(ctx).Should(BeEquivalentTo(2))
	s.awaitSettled(ctx)
	before, err := s.status(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(before).To(And(HaveField("Version", BeEquivalentTo(2)), HaveField("Revision", BeEquivalentTo(2)),
		HaveField("Conditions", Not(BeEmpty()))))
	Expect(api.Status().Patch(ctx, s.pool, client.RawPatch(types.MergePatchType, []byte(`{"status":null}`)))).To(Succeed())
	Eventually(s.status).WithContext(ctx).Should(Equal(before))
	Expect(s.version(ctx)).To(BeEquivalentTo(2), "nothing was published anew")
})

// status is the pool's, without the times of its conditions.
func (s *environment) status(ctx context.Context) (v1alpha1.WorkerPoolStatus, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(s.pool), s.pool)
	status := *s.pool.Status.DeepCopy()
	for n := range status.Conditions {
		status.Conditions[n].LastTransitionTime = metav1.Time{}
	}
	return status, err
}
