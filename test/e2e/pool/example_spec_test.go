package pool

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("The example", func() {
	It("is what examples/backups says, as it is applied", func(ctx SpecContext) {
		Expect(kubectl(ctx, "apply", "--namespace", env.namespace, "--filename", writeExample())).To(ContainSubstring("workerpool"))
		pool := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "backups"}}
		Eventually(func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
			g.Expect([]int32{pool.Status.ExpectedSize, pool.Status.Size, pool.Status.Jobs}).To(HaveExactElements(int32(5), int32(5), int32(8)))
			g.Expect(meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionConverged)).To(BeTrue(), "%v", pool.Status.Conditions)
			snapshot := takeSnapshot(ctx, g, pool)
			for worker, jobs := range map[string][]string{
				"backup-worker-0": {"postgres:catalog"},
				"backup-worker-1": {"postgres:accounts", "bucket:invoices"},
				"backup-worker-2": {"bucket:images", "bucket:reports", "bucket:audit"},
				"backup-worker-3": {"postgres:billing"},
				"backup-worker-4": {"postgres:orders"},
			} {
				g.Expect(snapshot.Workloads[worker].Jobs).To(HaveExactElements(jobs), worker)
				g.Expect(snapshot.acknowledgedVersions[worker]).To(Equal("1"), worker)
			}
		}).WithContext(ctx).Should(Succeed())
	})
})

// writeExample is a file with the manifests of examples/backups, whose image may be another.
func writeExample() string {
	GinkgoHelper()
	const image = "image: localhost/swarm-worker:dev"
	text, err := os.ReadFile(testcluster.FromRoot("examples", "backups", "backups.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(string(text)).To(ContainSubstring(image))
	file := filepath.Join(GinkgoT().TempDir(), "backups.yaml")
	Expect(os.WriteFile(file, []byte(strings.ReplaceAll(string(text), image, "image: "+workerImage())), 0o600)).To(Succeed())
	return file
}
