package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("kubectl swarm pools", func() {
	It("says how large a pool is, how far it has come, and why", func() {
		out := runSuccessfully("pools")
		Expect(out).To(MatchRegexp(row("NAME WORKLOAD SIZE JOBS VERSION CONVERGED REASON")))
		Expect(out).To(MatchRegexp(row("cameras StatefulSet/swarm-worker 2/2 27 1 True Available")))
		Expect(out).To(MatchRegexp(row("empty StatefulSet/missing 0/0 0 0 - -")))
		Expect(out).NotTo(ContainSubstring("\x1b"))
	})

	It("looks into all namespaces", func() {
		Expect(runSuccessfully("pools -A -o wide")).To(MatchRegexp(row(namespace +
			" cameras StatefulSet/swarm-worker 2/2 27 1 True Available 3/3 -")))
	})

	It("gives the objects to programs", func() {
		pool := &v1alpha1.WorkerPool{}
		Expect(yaml.UnmarshalStrict([]byte(runSuccessfully("pools cameras -o yaml")), pool)).To(Succeed())
		Expect(pool.Kind + " " + pool.APIVersion).To(Equal("WorkerPool swarm.io/v1alpha1"))
		Expect(pool.Status.Workers).To(HaveLen(2))
		var list struct {
			APIVersion, Kind string
			Items            []v1alpha1.WorkerPool
		}
		Expect(json.Unmarshal([]byte(runSuccessfully("pools -o json")), &list)).To(Succeed())
		Expect(list.APIVersion + " " + list.Kind).To(Equal("v1 List"))
		Expect(list.Items).To(HaveLen(2))
		Expect(runSuccessfully("pools -o name")).To(Equal("workerpool.swarm.io/cameras\nworkerpool.swarm.io/empty\n"))
	})

	It("gives objects that kubectl takes back", func(ctx SpecContext) {
		apply := exec.CommandContext(ctx, "kubectl", "replace", "--dry-run=server", "--filename", "-")
		apply.Stdin = strings.NewReader(runSuccessfully("pools -o json"))
		Expect(runToEnd(apply).code).To(Equal(0))
	})
})

var _ = Describe("kubectl swarm jobs", func() {
	It("says which worker has which job", func() {
		out := runSuccessfully("jobs cameras")
		Expect(strings.Count(out, "\n")).To(Equal(28))
		Expect(out).To(MatchRegexp(row("swarm-worker-0 Ready Acknowledged 1 stream:xxrtve1")))
		Expect(out).To(MatchRegexp(row("swarm-worker-1 NotReady Assumed 1 stream:cars:updated")))
	})

	It("says it of one worker, to programs", func() {
		var workers []struct {
			Worker, State, Acknowledged string
			Version                     int64
			Jobs                        []string
		}
		Expect(json.Unmarshal([]byte(runSuccessfully("jobs cameras --worker swarm-worker-1 -o json")), &workers)).To(Succeed())
		Expect(workers).To(HaveLen(1))
		Expect(workers[0].Jobs).To(HaveLen(13))
		Expect(workers[0].Acknowledged).To(Equal("Assumed"))
		Expect(strings.Fields(runSuccessfully("jobs cameras --worker swarm-worker-1 -o name"))).To(Equal(workers[0].Jobs))
	})

	It("reads a ConfigMap for each worker", func(ctx SpecContext) {
		pool := newPool(namespace, "divided", v1alpha1.WorkloadStatefulSet, "divided")
		pool.Spec.Config.Layout = v1alpha1.LayoutPerWorker
		Expect(api.Create(ctx, pool)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, pool)).To(Succeed()) })
		for n := range 11 {
			worker := fmt.Sprintf("divided-%d", n)
			file := codec.File{Version: 4, Workers: []codec.FileEntry{{Worker: worker, Version: 4, Jobs: []string{fmt.Sprint("job-", n)}}}}
			Expect(api.Create(ctx, newConfigMap(pool, "divided-config-"+worker, "config.yml", file.String()))).To(Succeed())
		}
		Expect(strings.Fields(runSuccessfully("jobs divided -o name"))).To(HaveExactElements(
			"job-0", "job-1", "job-2", "job-3", "job-4", "job-5", "job-6", "job-7", "job-8", "job-9", "job-10"))
	})
})

// snapshot is everything in the namespace that a plan could write to.
func snapshot(ctx context.Context) (lines []string) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{&v1alpha1.WorkerPoolList{}, &corev1.ConfigMapList{}, &appsv1.ControllerRevisionList{}} {
		Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		text, err := json.Marshal(list)
		Expect(err).NotTo(HaveOccurred())
		var items struct{ Items []json.RawMessage }
		Expect(json.Unmarshal(text, &items)).To(Succeed())
		for _, item := range items.Items {
			lines = append(lines, string(item))
		}
	}
	return lines
}

type plan struct {
	Moving, Staying, Configs, SizeBefore, SizeAfter int
	Moves                                           []struct{ Job, From, To, Reason string }
	Workers                                         []struct{ Worker string }
}

func parsePlan(line string) (p plan) {
	GinkgoHelper()
	Expect(json.Unmarshal([]byte(runSuccessfully(line+" -o json")), &p)).To(Succeed())
	return p
}

var _ = Describe("kubectl swarm plan", func() {
	It("says what a third worker would move, and writes nothing", func(ctx SpecContext) {
		before := snapshot(ctx)
		out := runSuccessfully("plan pool cameras --replicas 3")
		Expect(out).To(HavePrefix("27 jobs over 2 -> 3 workers: 9 move, 18 stay; 2 published configs\n"))
		Expect(out).To(MatchRegexp(row("swarm-worker-0 14 -> 9")))
		Expect(out).To(ContainSubstring("swarm-worker-0 had a load of 14, and its part among 3 workers is 9"))
		made := parsePlan("plan pool cameras --replicas 3")
		Expect(made.Moving).To(Equal(9))
		for _, move := range made.Moves {
			Expect(move.To).To(Equal("swarm-worker-2"))
		}
		Expect(snapshot(ctx)).To(Equal(before))
	})

	It("says that nothing would move", func() {
		Expect(runSuccessfully("plan pool cameras")).To(Equal("Nothing would move: 27 jobs over 2 workers\n"))
	})

	It("takes other jobs and strategies", func() {
		made := parsePlan("plan pool cameras --add-job stream:lobby --remove-job stream:foo:new --strategy CONTIGUOUS")
		Expect(made.Moves).To(ContainElement(HaveField("Job", "stream:lobby")))
		Expect(made.Moves).To(ContainElement(And(HaveField("Job", "stream:foo:new"), HaveField("To", ""))))
	})

	It("knows the pods of a Deployment by their slots", func(ctx SpecContext) {
		made := newDeployment(ctx)
		got := parsePlan("plan pool " + made.pool + " --replicas 3")
		Expect([]int{got.Moving, got.SizeBefore, got.SizeAfter}).To(Equal([]int{1, 2, 3}))
		Expect(got.Workers).To(HaveLen(3))
		Expect(got.Workers[0].Worker).To(Equal(made.pods[1]), "slot 0 was given to the second pod")
		Expect(got.Workers[1].Worker).To(Equal(made.pods[0]))
		Expect(got.Workers[2].Worker).To(Equal("(new)"))
	})
})

type deployment struct {
	pool string
	pods []string
}

// newDeployment makes one with a pool of four jobs, whose pods have slots in reverse order.
func newDeployment(ctx SpecContext) deployment {
	GinkgoHelper()
	labels := map[string]string{"app": "deployed"}
	workload := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployed"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels),
	}}
	pool := newPool(namespace, "deployed", v1alpha1.WorkloadDeployment, "deployed")
	pool.Spec.Jobs = []v1alpha1.Job{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	for _, object := range []client.Object{workload, pool} {
		Expect(api.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, object)).To(Succeed()) })
	}
	pods := &corev1.PodList{}
	Eventually(func() ([]corev1.Pod, error) {
		return pods.Items, api.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(labels))
	}).Should(HaveLen(2))
	result := deployment{pool.Name, []string{pods.Items[0].Name, pods.Items[1].Name}}
	for n, name := range result.pods {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata": {"labels": {%q: "%d"}}}`, v1alpha1.LabelSlot,
			1-n))
		Expect(api.Patch(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, patch)).To(Succeed())
	}
	file := codec.File{Version: 1, Workers: []codec.FileEntry{{Worker: result.pods[1], Version: 1, Jobs: []string{"a", "b"}},
		{Worker: result.pods[0], Version: 1, Jobs: []string{"c", "d"}}}}
	config := newConfigMap(pool, "deployed-config", "config.yml", file.String())
	ledger, err := codec.NewLedger([]assign.Record{{Worker: result.pods[1]}, {Worker: result.pods[0], Ordinal: 1}}, nil).Encode()
	Expect(err).NotTo(HaveOccurred())
	config.Annotations = map[string]string{v1alpha1.AnnotationLedger: ledger}
	Expect(api.Create(ctx, config)).To(Succeed())
	return result
}

var _ = Describe("kubectl swarm", func() {
	It("explains itself", func() {
		Expect(runSuccessfully("")).To(And(ContainSubstring("Examples:"), ContainSubstring("kubectl swarm plan pool cameras --replicas 3")))
		Expect(runSuccessfully("version")).To(MatchRegexp(`^kubectl-swarm \S+ \(commit \S+, .+\)\n$`))
	})

	It("is found by kubectl as a plugin", func(ctx SpecContext) {
		command := exec.CommandContext(ctx, "kubectl", "swarm", "pools", "cameras", "--namespace", namespace, "-o", "name")
		command.Env = append(os.Environ(), "PATH="+testcluster.FromRoot("bin")+":"+os.Getenv("PATH"))
		Expect(runToEnd(command)).To(Equal(commandResult{0, "workerpool.swarm.io/cameras\n", ""}))
	})

	It("offers the names of pools to shells", func() {
		offered := runToEnd(exec.Command(testcluster.FromRoot("bin", "kubectl-swarm"), "__complete", "jobs", "--namespace", namespace, ""))
		Expect(strings.Fields(offered.out)).To(ContainElements("cameras", "empty"))
		Expect(runSuccessfully("completion zsh")).To(ContainSubstring("compdef"))
	})

	DescribeTable("says in one line what is wrong, and how to go on",
		func(code int, line, said string) {
			got := runCommand(strings.Fields(line)...)
			Expect(got.code).To(Equal(code), got.stderr)
			Expect(got.out).To(BeEmpty())
			Expect(got.stderr).To(And(HavePrefix("kubectl swarm: "), ContainSubstring(said), HaveSuffix("\n")))
			Expect(strings.Count(got.stderr, "\n")).To(Equal(1))
		},
		Entry("no such pool", 1, "pools camera", `there is no pool "camera" in namespace "swarm-cli-`),
		Entry("nothing published", 1, "jobs empty", `pool "empty" has not published ConfigMap "missing-config" yet`),
		Entry("no workload", 1, "plan pool empty", `there is no StatefulSet "missing"`),
		Entry("no such worker", 1, "jobs cameras --worker w", `has no worker "w": leave out --worker`),
		Entry("no right", 1, "pools --as stranger", "is forbidden: User \"stranger\" cannot list"),
		Entry("no right to go back", 1, "rollback pool cameras --to 1 --as stranger", "ask for that right"),
		Entry("no answer", 1, "pools --server https://127.0.0.1:1", "connection refused: check that the cluster runs"),
		Entry("no such context", 1, "pools --context moon", "kubectl config get-contexts lists the contexts"),
		Entry("no such file", 1, "pools --kubeconfig /nowhere", "check --context and --kubeconfig"),
		Entry("no such command", 2, "pool2", `there is no command "pool2": see kubectl swarm --help`),
		Entry("no such flag", 2, "pools --every", "unknown flag: --every: see kubectl swarm pools --help"),
		Entry("no such form", 2, "jobs cameras -o table", "must be one of wide, name, json, yaml"),
		Entry("no pool", 2, "history pool", "name a pool: see kubectl swarm history pool --help"),
	)

	It("refuses to run when no cluster is named", func() {
		command := exec.Command(testcluster.FromRoot("bin", "kubectl-swarm"), "pools")
		command.Env = append(os.Environ(), "KUBECONFIG=/dev/null")
		Expect(runToEnd(command)).To(Equal(commandResult{1, "",
			"kubectl swarm: no cluster is configured: set KUBECONFIG, or use --kubeconfig\n"}))
	})

	It("gives up on a cluster that does not answer", func() {
		Expect(runCommand("pools", "--server", "https://192.0.2.1", "--request-timeout", "1s").code).To(Equal(1))
	})
})
