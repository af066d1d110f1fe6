package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var _ = It("every sample is accepted and keeps what it says", func(ctx SpecContext) {
	for _, file := range manifests(sampleFolder) {
		sample := load(file)
		sample.SetNamespace(namespace)
		stored := createObject(ctx, sample.DeepCopy())
		Expect(stored.Object["spec"]).To(contain(sample.Object["spec"]), file)
	}
})

var _ = DescribeTable("[S01/defaults] defaults stand in the stored object",
	func(ctx SpecContext, of base, wanted string) {
		made := createObject(ctx, of.object())
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(made.GroupVersionKind())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(made), stored)).To(Succeed())
		Expect(stored.Object["spec"]).To(contain(value(wanted)))
	},
	Entry("Swarm", swarm, `
topology: mesh
strategy: balanced
minAgents: 1
maxAgents: 10
replicas: 1
mode: Running
agents: [{slots: 1, weight: 1, storage: {retention: Retain}, runtime: {exec: {gracePeriodSeconds: 30}}}]
autoscaling: {mode: "Off", targetBacklogPerAgent: 5, scaleDownAfterSeconds: 300, predictive: "Off"}
tasks: {finishedLimit: 1000, ttlSecondsAfterFinished: 3600, maxInFlightPerTenant: 0}
`),
	Entry("Agent", agent, `slots: 1`),
	Entry("Task", task, `
priority: medium
strategy: parallel
retry: {limit: 3, initialSeconds: 1, factor: 2, maxSeconds: 60}
preemption: Never
desired: Run
`),
	Entry("WorkerPool", pool, `
workers: {kind: StatefulSet}
jobs: [{weight: 1, qos: Shared}]
strategy: Sticky
capacityPerWorker: 0
config: {key: config.yml, layout: Shared, adopt: Never}
handoff: Exclusive
failover: {afterSeconds: 300, maxPercent: 25}
refresh: {policy: Auto, deadlineSeconds: 60, maxUnavailable: 1}
revisionHistoryLimit: 10
mode: Running
`),
	Entry("SwarmSnapshot", snapshot, `{keep: 7, storage: {configMap: {}}}`),
)

var _ = DescribeTable("is accepted and stored unchanged",
	func(ctx SpecContext, of base, changes, kept string) {
		stored := createObject(ctx, of.withChanges(changes))
		Expect(stored.Object["spec"]).To(contain(value(kept)))
	},
	Entry("replicas outside minAgents and maxAgents, to be clamped", swarm, `spec.replicas: 100`, `replicas: 100`),
	Entry("a swarm scaled to nothing", swarm, `{spec.replicas: 0, spec.minAgents: 0}`, `{replicas: 0, minAgents: 0}`),
	Entry("a ring of three", swarm, `{spec.topology: ring, spec.maxAgents: 3}`, `topology: ring`),
	Entry("an agent that opens the link itself", swarm, `spec.agents.0.runtime: null`, `{}`),
	Entry("name and type of 51 characters together", swarm, `{metadata.name: `+letters(25)+`, spec.agents.0.type: `+letters(26)+`}`, `{}`),
	Entry("labels and annotations of a template", swarm, `spec.agents.0.template.metadata: {labels: {a: b}, annotations: {c: d}}`,
		`agents: [{template: {metadata: {labels: {a: b}, annotations: {c: d}}}}]`),
	Entry("the http runtime with its path", swarm, `spec.agents.0.runtime: {http: {port: 8080}}`,
		`agents: [{runtime: {http: {port: 8080, path: /task}}}]`),
	Entry("items that are any JSON", task, `spec.items: {list: [1, two, [3], {four: {five: true}}]}`,
		`items: {list: [1, two, [3], {four: {five: true}}]}`),
	Entry("a payload above 8 KiB, which fails later with a reason", task, `spec.payload.text: `+letters(9000), `{}`),
	Entry("a task without payload and items", task, `{spec.payload: null, spec.items: null}`, `{}`),
	Entry("no retries", task, `spec.retry.limit: 0`, `retry: {limit: 0, maxSeconds: 60}`),
	Entry("a gang", task, `{spec.minParallel: 4, spec.parallelism: 8}`, `{minParallel: 4, parallelism: 8}`),
	Entry("a pool without jobs", pool, `spec.jobs: null`, `{}`),
	Entry("jobs with odd names", pool, `spec.jobs: [{name: "rtsp://cam/1?x=y"}, {name: two words}, {name: ü}]`,
		`jobs: [{name: "rtsp://cam/1?x=y"}, {name: two words}, {name: ü}]`),
	Entry("a schedule with lists, ranges and steps", snapshot, `spec.schedule: 0,30 8-18/2 1,15 */3 1-5`,
		`schedule: 0,30 8-18/2 1,15 */3 1-5`),
	Entry("a schedule by nickname", snapshot, `spec.schedule: "@hourly"`, `schedule: "@hourly"`),
	Entry("a snapshot in an object store", snapshot,
		`spec.storage: {s3: {bucket: swarm, prefix: a/b, endpoint: "https://store.local:9000", region: eu-1, credentialsSecretRef: {name: s}}}`,
		`storage: {s3: {bucket: swarm, endpoint: "https://store.local:9000"}}`),
)

var _ = DescribeTable("field selectors find",
	func(ctx SpecContext, of base, changes, status, selector string) {
		wanted := createObject(ctx, of.withChanges(changes))
		other := createObject(ctx, of.object())
		Expect(writeStatus(ctx, wanted, status)).To(Succeed())

		found := &unstructured.UnstructuredList{}
		found.SetGroupVersionKind(wanted.GroupVersionKind())
		field, value, _ := strings.Cut(selector, "=")
		Expect(api.List(ctx, found, client.InNamespace(namespace), client.MatchingFields{field: value})).To(Succeed())
		Expect(names(found)).To(ContainElement(wanted.GetName()))
		Expect(names(found)).NotTo(ContainElement(other.GetName()))
	},
	Entry("the Tasks of a swarm", task, `spec.swarmRef.name: chosen`, `{}`, `spec.swarmRef.name=chosen`),
	Entry("Tasks by phase", task, `{}`, `status: {phase: Running}`, `status.phase=Running`),
	Entry("Tasks by priority", task, `spec.priority: critical`, `{}`, `spec.priority=critical`),
	Entry("the Agents of a swarm", agent, `spec.swarmRef.name: chosen`, `{}`, `spec.swarmRef.name=chosen`),
	Entry("Agents by type", agent, `spec.type: analyst`, `{}`, `spec.type=analyst`),
	Entry("Agents by phase", agent, `{}`, `status: {phase: Failed}`, `status.phase=Failed`),
	Entry("the WorkerPool of a workload", pool, `spec.workers.name: chosen`, `{}`, `spec.workers.name=chosen`),
	Entry("Swarms by mode", swarm, `spec.mode: Paused`, `{}`, `spec.mode=Paused`),
	Entry("the SwarmSnapshots of a swarm", snapshot, `spec.swarmRef.name: chosen`, `{}`, `spec.swarmRef.name=chosen`),
)

func names(list *unstructured.UnstructuredList) []string {
	var found []string
	for _, item := range list.Items {
		found = append(found, item.GetName())
	}
	return found
}

func value(text string) any {
	var parsed any
	Expect(yaml.Unmarshal([]byte(text), &parsed)).To(Succeed(), text)
	return parsed
}
