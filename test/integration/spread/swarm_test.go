package spread

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("A Swarm", func() {
	It("has its agents split as its spec says, type by type", func(ctx SpecContext) {
		s := newEnvironment(ctx)
		text, err := os.ReadFile(testcluster.FromRoot("deploy", "samples", "swarm.yaml"))
		Expect(err).NotTo(HaveOccurred())
		swarm := &v1alpha1.Swarm{}
		Expect(yaml.UnmarshalStrict(text, swarm)).To(Succeed())
		swarm.Namespace = s.namespace
		swarm.Spec.Spread = &v1alpha1.Spread{MinOnDemand: new(int32(1)), SpotPercentage: new(int32(60))}
		for n := range swarm.Spec.Agents {
			swarm.Spec.Agents[n].Storage = nil
			swarm.Spec.Agents[n].Template.Spec.Tolerations = s.podSpec().Tolerations
		}
		Expect(api.Create(ctx, swarm)).To(Succeed())
		for _, kind := range []struct{ name, current string }{{"research-coordinator", distribution(1, 0)},
			{"research-coder", distribution(2, 1)}, {"research-analyst", distribution(1, 1)}} {
			set := &appsv1.StatefulSet{}
			Eventually(func() (map[string]string, error) {
				err := api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: kind.name}, set)
				return set.Annotations, err
			}).Should(And(
				HaveKeyWithValue(annotationKey(v1alpha1.SpreadMode), v1alpha1.SpreadEnabled),
				HaveKeyWithValue(annotationKey(v1alpha1.SpreadMinOnDemand), "1"),
				HaveKeyWithValue(annotationKey(v1alpha1.SpreadSpotPercentage), "60"),
				HaveKeyWithValue(annotationKey(v1alpha1.SpreadCurrent), kind.current),
				HaveKeyWithValue(annotationKey(v1alpha1.SpreadStatus), v1alpha1.SpreadBalanced),
			), kind.name)
		}
	})
})
