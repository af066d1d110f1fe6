package integration

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// kubectl runs the program that KUBECTL names, which may come with a first argument, and returns its whole output.
func kubectl(ctx context.Context, arguments ...string) (string, error) {
	program := strings.Fields(os.Getenv("KUBECTL"))
	if len(program) == 0 {
		program = []string{"kubectl"}
	}
	words := slices.Concat(program[1:], arguments, []string{"--namespace", namespace})
	output, err := exec.CommandContext(ctx, program[0], words...).CombinedOutput()
	return string(output), err
}

// mustKubectl is the output of a kubectl command that must succeed.
func mustKubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	output, err := kubectl(ctx, arguments...)
	Expect(err).NotTo(HaveOccurred(), output)
	return output
}

var _ = Describe("kubectl", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		Eventually(kubectl).WithContext(ctx).WithArguments("apply", "--filename",
			sampleFolder).Should(ContainSubstring("swarm.swarm.io/research"))
	})
	AfterAll(func(ctx SpecContext) {
		mustKubectl(ctx, "delete", "--filename", sampleFolder)
	})

	It("applies the CRDs from the client and from the server", func(ctx SpecContext) {
		Expect(mustKubectl(ctx, "apply", "--filename", crdFolder)).NotTo(ContainSubstring("Too long"))
		mustKubectl(ctx, "apply", "--server-side", "--force-conflicts", "--filename", crdFolder)
		Expect(mustKubectl(ctx, "apply", "--filename", crdFolder)).To(ContainSubstring("swarms.swarm.io"))
	})

	It("applies the samples again without a change", func(ctx SpecContext) {
		// kubectl prints "configured" wherever a list has got defaults; what counts is that nothing was written.
		versions := []string{"get", "swarm-io", "--output", "jsonpath={.items[*].metadata.resourceVersion}"}
		before := mustKubectl(ctx, versions...)
		mustKubectl(ctx, "apply", "--filename", sampleFolder)
		Expect(mustKubectl(ctx, versions...)).To(Equal(before))
	})

	It("[S01/crds] knows the CRDs of swarms, agents and tasks", func(ctx SpecContext) {
		mustKubectl(ctx, "get", "crd", "swarms.swarm.io", "agents.swarm.io", "tasks.swarm.io")
	})

	It("[K20] lists kinds, short names and scope among the API resources", func(ctx SpecContext) {
		output := mustKubectl(ctx, "api-resources", "--api-group", "swarm.io", "--no-headers")
		for _, line := range []string{
			`swarms\s+sw\s+swarm.io/v1alpha1\s+true\s+Swarm`, `agents\s+ag\s+swarm.io/v1alpha1\s+true\s+Agent`,
			`tasks\s+tk\s+swarm.io/v1alpha1\s+true\s+Task`,
			`workerpools\s+wp\s+swarm.io/v1alpha1\s+true\s+WorkerPool`, `swarmsnapshots\s+snap\s+swarm.io/v1alpha1\s+true\s+SwarmSnapshot`,
		} {
			Expect(output).To(MatchRegexp(line))
		}
	})

	DescribeTable("prints whether it is fine, how many, and why not",
		func(ctx SpecContext, name, status, header, row string) {
			mustKubectl(ctx, "patch", name, "--subresource", "status", "--type", "merge", "--patch", status)
			output := mustKubectl(ctx, "get", name)
			Expect(output).To(MatchRegexp(`^NAME\s+` + strings.ReplaceAll(header, " ", `\s+`) + `\s+AGE`))
			Expect(output).To(MatchRegexp(strings.ReplaceAll(row, " ", `\s+`)))
		},
		Entry("sw", "sw/research", `{"status": {"phase": "Running", "activeAgents": 5, "conditions": [`+
			conditionJSON("Ready", "False", "AgentsFailing")+`]}}`,
			"TOPOLOGY DESIRED ACTIVE PHASE READY REASON", "research hierarchical 6 5 Running False AgentsFailing"),
		Entry("ag", "ag/research-coder-0", `{"status": {"phase": "Pending", "conditions": [`+conditionJSON("Ready", "False", "LinkLost")+`,`+
			conditionJSON("Linked", "False", "LinkLost")+`]}}`,
			"SWARM TYPE SLOTS PHASE READY LINKED REASON", "research-coder-0 research coder 2 Pending False False LinkLost"),
		Entry("tk", "tk/quarterly-report", `{"status": {"phase": "Running", "progress": 40, "activeAttempts": 10, "reason": "NoFreeSlot"}}`,
			"SWARM PRIORITY PHASE PROGRESS ACTIVE REASON", "quarterly-report research high Running 40 10 NoFreeSlot"),
		Entry("wp", "wp/cameras",
			`{"status": {"size": 2, "expectedSize": 3, "jobs": 4, "version": 7, "conditions": [`+conditionJSON("Ready", "True", "Available")+`,`+
				conditionJSON("Converged", "False", "Converging")+`]}}`,
			"WORKERS SIZE EXPECTED JOBS VERSION CONVERGED READY REASON", "cameras swarm-worker 2 3 4 7 False True Available"),
		Entry("snap", "snap/nightly", `{"status": {"phase": "Ready", "manifest": {"digest": "sha256:`+digest+
			`", "agents": 6, "tasks": 2}, "conditions": [`+conditionJSON("Ready", "True", "Available")+`]}}`,
			"SWARM SCHEDULE PHASE AGENTS TASKS READY REASON", `nightly research 0 3 \* \* \* Ready 6 2 True Available`),
	)

	It("finds all kinds by category, and a swarm by the word swarm", func(ctx SpecContext) {
		output := mustKubectl(ctx, "get", "swarm-io", "--output", "name")
		for _, name := range []string{"swarm.swarm.io/research", "agent.swarm.io/research-coder-0", "task.swarm.io/quarterly-report",
			"workerpool.swarm.io/cameras", "swarmsnapshot.swarm.io/nightly"} {
			Expect(output).To(ContainSubstring(name))
		}
		// A category of this name on more than one kind would shadow the kind: `get swarm research` would be an error
		// and `delete swarm --all` would delete everything.
		Expect(mustKubectl(ctx, "get", "swarm", "research", "--output", "name")).To(Equal("swarm.swarm.io/research\n"))
		Expect(mustKubectl(ctx, "get", "swarm", "--output", "name")).NotTo(ContainSubstring("task"))
	})

	It("[O27/kubectl-scale] scales a Swarm and a WorkerPool, and waits for a condition", func(ctx SpecContext) {
		mustKubectl(ctx, "patch", "swarm", "research", "--subresource", "status", "--type", "merge", "--patch",
			`{"status": {"replicas": 6, "selector": "swarm.io/swarm=research", "conditions": [`+conditionJSON("Ready", "True", "Available")+`]}}`)
		mustKubectl(ctx, "scale", "swarm", "research", "--replicas", "8")
		mustKubectl(ctx, "scale", "workerpool", "cameras", "--replicas", "4")
		Expect(mustKubectl(ctx, "get", "swarm", "research", "--output", "jsonpath={.spec.replicas}")).To(Equal("8"))
		Expect(mustKubectl(ctx, "get", "wp", "cameras", "--output", "jsonpath={.spec.replicas}")).To(Equal("4"))
		Expect(mustKubectl(ctx, "get", "swarm", "research", "--subresource", "scale", "--output",
			"jsonpath={.spec.replicas} {.status.replicas} {.status.selector}")).
			To(Equal("8 6 swarm.io/swarm=research"))
		mustKubectl(ctx, "wait", "swarm/research", "--for", "condition=Ready", "--timeout", "10s")
	})

	It("[O27/autoscaler] lets a HorizontalPodAutoscaler scale a Swarm", func(ctx SpecContext) {
		// Below its minimum an autoscaler acts without metrics, so none have to be served here.
		mustKubectl(ctx, "autoscale", "swarm", "research", "--min", "9", "--max", "10")
		Eventually(kubectl).WithContext(ctx).WithArguments("get", "swarm", "research", "--output", "jsonpath={.spec.replicas}").
			WithTimeout(time.Minute).Should(Equal("9"))
		Expect(mustKubectl(ctx, "get", "hpa", "research", "--output", `jsonpath={.status.conditions[?(@.type=="AbleToScale")].status}`)).
			To(Equal("True"))
		mustKubectl(ctx, "delete", "hpa", "research")
	})

	It("refuses to scale past the bound", func(ctx SpecContext) {
		output, err := kubectl(ctx, "scale", "swarm", "research", "--replicas", "1001")
		Expect(err).To(HaveOccurred())
		Expect(output).To(ContainSubstring("spec.replicas in body should be less than or equal to 1000"))
	})

	DescribeTable("explains",
		func(ctx SpecContext, path, meaning string) {
			Expect(strings.Join(strings.Fields(mustKubectl(ctx, "explain", path)), " ")).To(ContainSubstring(meaning))
		},
		Entry(nil, "swarm", "Swarm is a set of long-lived agents"),
		Entry(nil, "swarm.spec.topology", "Defaults to mesh"),
		Entry(nil, "sw.spec.agents.storage.retention", "Scaling never deletes a volume"),
		Entry(nil, "agent.status.workload.running.attempt", "number of the attempt"),
		Entry(nil, "task.spec.retry.factor", "Defaults to 2"),
		Entry(nil, "tk.status.assignedAgents", "at most 64 of them"),
		Entry(nil, "workerpool.spec.refresh.acknowledge.httpGet.path", "Defaults to /internal/version"),
		Entry(nil, "swarmsnapshot.spec.storage.s3.credentialsSecretRef", "accessKeyID"),
	)

	It("explains every kind to the bottom", func(ctx SpecContext) {
		for _, kind := range kinds {
			output := mustKubectl(ctx, "explain", kind, "--recursive")
			Expect(output).To(And(ContainSubstring("spec\t<"), ContainSubstring("conditions\t<"), Not(ContainSubstring("<empty>"))), kind)
		}
	})
})

func conditionJSON(kind, status, reason string) string {
	return `{"type": "` + kind + `", "status": "` + status + `", "reason": "` + reason +
		`", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}`
}
