package pool

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// dev is the namespace of deploy/kustomize/envs/dev.
const dev = "swarm"

var _ = Describe("What people type", func() {
	It("works on deploy/kustomize/envs/dev: apply, scale, set image, rollout restart [P18]", func(ctx SpecContext) {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: dev,
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
		create(ctx, space)
		DeferCleanup(func(ctx SpecContext) {
			Expect(kubectl(ctx, "delete", "namespace", dev, "--wait=false")).To(ContainSubstring("deleted"))
		})
		Expect(kubectl(ctx, "apply", "--server-side", "--kustomize", "../../../deploy/kustomize/envs/dev", "--selector",
			"app.kubernetes.io/name=swarm-worker")).To(ContainSubstring("statefulset.apps/swarm-worker"))
		Expect(devText(ctx, 2)).To(Equal(jobList("pool-27-expected.yml")))
		commit, date := buildInfoPatterns(ctx)
		Expect(kubectl(ctx, "exec", "--namespace", dev, "swarm-worker-0", "--", "/swarm-worker", "--version")).To(
			MatchRegexp(`^swarm-worker \S+ \(commit %s, %s\)\n$`, commit, date))
		Expect(kubectl(ctx, "exec", "--namespace", system, "deploy/swarm-operator", "--", "/swarm-operator", "--version")).To(
			MatchRegexp(`^swarm-operator \S+ \(commit %s, %s\)\n$`, commit, date))

		Expect(kubectl(ctx, "scale", "--namespace", dev, "sts", "swarm-worker", "--replicas=3")).To(ContainSubstring("scaled"))
		text := devText(ctx, 3)
		before := devPods(ctx)
		Expect(kubectl(ctx, "set", "image", "--namespace", dev, "sts/swarm-worker", "swarm-worker="+workerImage())).To(Or(BeEmpty(),
			ContainSubstring("image updated")))
		Expect(kubectl(ctx, "rollout", "restart", "--namespace", dev, "sts", "swarm-worker")).To(ContainSubstring("restarted"))
		Expect(kubectl(ctx, "rollout", "status", "--namespace", dev, "sts", "swarm-worker", "--timeout=80s")).To(ContainSubstring("complete"))
		for worker, uid := range devPods(ctx) {
			Expect(uid).NotTo(Equal(before[worker]), worker)
		}
		Expect(devText(ctx, 3)).To(Equal(text), "replaced workers have what they had")
	})

	It("gives every worker a ConfigMap of its own under layout PerWorker [P05/mounted]", func(ctx SpecContext) {
		pool := poolOf("own", numberedNames("job", 6)...)
		pool.Spec.Config.Layout = v1alpha1.LayoutPerWorker
		workload := statefulSet("own", 2, idleContainer())
		workload.Spec.Template.Labels[v1alpha1.LabelPool] = pool.Name
		create(ctx, pool, workload)
		for n := range 2 {
			name := fmt.Sprintf("own-%d", n)
			Eventually(func(g Gomega) {
				said, err := kubectl(ctx, "exec", "--namespace", env.namespace, name, "--", "cat", "/app/config/config.yml")
				g.Expect(err).NotTo(HaveOccurred(), said)
				g.Expect(said).To(And(ContainSubstring(name), ContainSubstring(fmt.Sprintf("job-%02d", 3*n)),
					Not(ContainSubstring(fmt.Sprintf("own-%d", 1-n)))))
			}).WithContext(ctx).Should(Succeed())
		}
		Eventually(condition(ctx, pool, v1alpha1.ConditionConverged)).WithContext(ctx).Should(HaveField("Status", metav1.ConditionTrue))
	})
})

// buildInfoPatterns returns patterns of the commit of this run, from which the images of our own cluster are built, and of its date.
// Another cluster may have images of any commit.
func buildInfoPatterns(ctx context.Context) (commit, date string) {
	GinkgoHelper()
	if os.Getenv("DEVCLUSTER_DATA") == "" {
		return `\w+(-dirty)?`, `\S+`
	}
	started, err := os.ReadFile(testcluster.FromRoot("bin", "results", "commit"))
	Expect(err).NotTo(HaveOccurred())
	source, _, _ := strings.Cut(string(started), "\n") // the planned reports follow
	commit, difference, _ := strings.Cut(source, " ")
	committed, err := exec.CommandContext(ctx, "git", "show", "--no-patch", "--format=%cI", commit).Output()
	Expect(err).NotTo(HaveOccurred())
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(committed)))
	Expect(err).NotTo(HaveOccurred())
	if difference != "" {
		commit += "(-dirty)?" // which an image ignores as long as Git does not track the file
	}
	return commit, at.UTC().Format(time.RFC3339)
}

// devText is what the pool of envs/dev has published when this many workers have acknowledged it.
func devText(ctx context.Context, workers int32) string {
	GinkgoHelper()
	config := &corev1.ConfigMap{}
	Eventually(func(g Gomega) {
		pool := &v1alpha1.WorkerPool{}
		key := client.ObjectKey{Namespace: dev, Name: "swarm-worker"}
		g.Expect(api.Get(ctx, key, pool)).To(Succeed())
		g.Expect(pool.Status.Size).To(Equal(workers))
		g.Expect(pool.Status.ExpectedSize).To(Equal(workers))
		g.Expect(meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionConverged)).To(BeTrue())
		g.Expect(api.Get(ctx, client.ObjectKey{Namespace: dev, Name: "swarm-worker-config"}, config)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
	return config.Data["config.yml"]
}

func devPods(ctx context.Context) map[string]types.UID {
	GinkgoHelper()
	pods, uids := &corev1.PodList{}, map[string]types.UID{}
	Expect(api.List(ctx, pods, client.InNamespace(dev))).To(Succeed())
	for _, pod := range pods.Items {
		uids[pod.Name] = pod.UID
	}
	return uids
}
