package swarm

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("The suite", func() {
	It("takes any cluster that KUBECONFIG names, and knows nothing else of it [R19/any-kubeconfig]", func(ctx SpecContext) {
		Expect(testcluster.PassedOnForeignCluster(ctx, "says that no agent offers what a task needs")).To(HaveLen(1))
	})
})
