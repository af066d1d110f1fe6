package spread

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("A workload that is spread", func() {
	It("has the wanted split from its first pods on, at every size, and nothing is moved for it [R01/deployment, R01/stateful-set, R02/ten-replicas, R02/three-replicas]", func(ctx SpecContext) {
		awaitCovered(ctx)
		web, store := deployment(spreadMeta("web", 2, 60), 10), statefulSet(spreadMeta("store", 3, 50), 6)
		create(ctx, web, store)
		awaitBalanced(ctx, web, 4, 6)
		awaitBalanced(ctx, store, 3, 3)
		first, err := pods(ctx, labelsOf(web))
		Expect(err).NotTo(HaveOccurred())

		scale(ctx, web, 13)
		scale(ctx, store, 4)
		awaitBalanced(ctx, web, 6, 7)
		awaitBalanced(ctx, store, 3, 1)
		scale(ctx, web, 3)
		awaitBalanced(ctx, web, 2, 1)
		for _, pod := range first {
			Expect(pod.Annotations).To(HaveKey(annotationKey(v1alpha1.SpreadClass)), "placed when it was made")
		}
		for _, workload := range []client.Object{web, store} {
			Expect(countEvictions(ctx, workload)).To(BeZero(), workload.GetName())
		}
	})

	It("is what examples/spread says, when it is applied", func(ctx SpecContext) {
		awaitCovered(ctx) // store.yaml is moved at night only: a pod from the moment before the API server asks would stay until then
		mustKubectl(ctx, "apply", "--namespace", namespace, "--filename", writeExample())
		awaitBalanced(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}, 4, 6)
		awaitBalanced(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "store"}}, 3, 2)
	})

	It("may be the agents of a Swarm, type by type", func(ctx SpecContext) {
		swarm := &v1alpha1.Swarm{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mixed"},
			Spec: v1alpha1.SwarmSpec{
				Replicas: new(int32(6)), MaxAgents: 10, Spread: &v1alpha1.Spread{MinOnDemand: new(int32(1)), SpotPercentage: new(int32(50))},
				Agents: []v1alpha1.AgentType{newAgentType("coder"), newAgentType("analyst")},
			},
		}
		create(ctx, swarm)
		DeferCleanup(func(ctx SpecContext) {
			mustKubectl(ctx, "delete", "--namespace", namespace, "swarm/mixed", "--timeout=60s")
		})
		mustKubectl(ctx, "wait", "--namespace", namespace, "swarm/mixed", "--for=condition=Ready", "--timeout=90s")
		for _, kind := range []string{"coder", "analyst"} {
			awaitSplit(ctx, client.MatchingLabels{v1alpha1.LabelSwarm: "mixed", v1alpha1.LabelAgentType: kind}, 2, 1)
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mixed-" + kind}}
			Eventually(spreadAnnotations).WithContext(ctx).WithArguments(set).Should(And(
				HaveKeyWithValue(annotationKey(v1alpha1.SpreadStatus), v1alpha1.SpreadBalanced),
				HaveKeyWithValue(annotationKey(v1alpha1.SpreadCurrent), distribution(2, 1))))
		}
	})
})

// newAgentType is a type of agents without a volume, that can be anywhere.
func newAgentType(kind string) v1alpha1.AgentType {
	return v1alpha1.AgentType{
		Type: kind, Runtime: &v1alpha1.AgentRuntime{Exec: &v1alpha1.ExecRuntime{Command: []string{"/probe", "work"}}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: testcluster.ProbeImage()}}}},
	}
}

// writeExample is a folder with the manifests of examples/spread, whose image may be out of reach.
func writeExample() string {
	GinkgoHelper()
	folder, image := GinkgoT().TempDir(), "image: registry.k8s.io/pause:3.10"
	files, err := filepath.Glob(testcluster.FromRoot("examples", "spread", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).To(HaveLen(2))
	for _, file := range files {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring(image))
		changed := strings.ReplaceAll(string(text), image, "image: "+testcluster.ProbeImage()+"\n        args: [sleep]")
		Expect(os.WriteFile(filepath.Join(folder, filepath.Base(file)), []byte(changed), 0o600)).To(Succeed())
	}
	return folder
}
