package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// expectRefused proves that the base alone is accepted and that it is refused with the changes, so that no case passes for
// another reason than its own.
func expectRefused(valid base) func(SpecContext, string, string) {
	return func(ctx SpecContext, changes, sentence string) {
		Expect(dryRun(ctx, valid.object())).To(Succeed(), "the base itself is valid")
		expectRefusal(dryRun(ctx, valid.withChanges(changes)), sentence)
	}
}

const template = `template: {spec: {containers: [{name: agent, image: "example/agent:1"}]}}`

var _ = DescribeTable("a Swarm is refused", expectRefused(swarm),
	Entry("[S01/invalid-enum] unknown topology", `spec.topology: circle`, `supported values: "mesh", "hierarchical", "ring", "star"`),
	Entry("[S01/invalid-enum] unknown strategy", `spec.strategy: fair`, `supported values: "balanced", "specialized", "adaptive"`),
	Entry("[S01/invalid-enum] unknown mode", `spec.mode: Stopped`, `supported values: "Running", "Paused", "Draining", "Suspended"`),
	Entry("misspelt field", `spec.topolgy: ring`, `unknown field "spec.topolgy"`),

	Entry("minAgents below 0", `spec.minAgents: -1`, `spec.minAgents in body should be greater than or equal to 0`),
	Entry("minAgents above 1000", `{spec.minAgents: 1001, spec.maxAgents: 1000}`,
		`spec.minAgents in body should be less than or equal to 1000`),
	Entry("maxAgents below 1", `{spec.maxAgents: 0, spec.minAgents: 0}`, `spec.maxAgents in body should be greater than or equal to 1`),
	Entry("maxAgents above 1000", `spec.maxAgents: 1001`, `spec.maxAgents in body should be less than or equal to 1000`),
	Entry("replicas below 0", `spec.replicas: -1`, `spec.replicas in body should be greater than or equal to 0`),
	Entry("replicas above 1000", `spec.replicas: 1001`, `spec.replicas in body should be less than or equal to 1000`),
	Entry("replicas as text", `spec.replicas: "3"`, `must be of type integer`),
	Entry("minAgents above maxAgents", `{spec.minAgents: 5, spec.maxAgents: 4}`, `lower minAgents or raise maxAgents`),
	Entry("[S12/ring-denied] ring of two", `{spec.topology: ring, spec.maxAgents: 2}`,
		`ring needs maxAgents of 3 or more: raise maxAgents or choose mesh`),
	Entry("star of one", `{spec.topology: star, spec.maxAgents: 1}`, `star needs maxAgents of 2 or more: raise maxAgents or choose mesh`),
	Entry("tree of one", `{spec.topology: hierarchical, spec.maxAgents: 1}`,
		`hierarchical needs maxAgents of 2 or more: raise maxAgents or choose mesh`),

	Entry("name that a Service cannot have", `metadata.name: 1st.swarm`, `use lower-case letters, digits and '-', starting with a letter`),
	Entry("name and type too long together", `{metadata.name: `+letters(26)+`, spec.agents.0.type: `+letters(26)+`}`,
		`together may have at most 51 characters`),

	Entry("no agent types", `spec.agents: null`, `spec.agents: Required value`),
	Entry("empty list of types", `spec.agents: []`, `spec.agents in body should have at least 1 items`),
	Entry("too many types", `spec.agents: `+listOf(33, `{type: t%d, `+template+`}`), `spec.agents: Too many: 33: must have at most 32 items`),
	Entry("the same type twice", `spec.agents: `+listOf(2, `{type: coder, `+template+`}`),
		`spec.agents[1]: Duplicate value: {"type":"coder"}`),
	Entry("type in capitals", `spec.agents.0.type: Coder`, `spec.agents[0].type in body should match`),
	Entry("empty type", `spec.agents.0.type: ""`, `spec.agents[0].type in body should be at least 1 chars long`),
	Entry("type too long", `spec.agents.0.type: `+letters(51), `spec.agents[0].type: Too long: may not be more than 50 bytes`),
	Entry("type left out", `spec.agents.0.type: null`, `spec.agents[0].type: Required value`),

	Entry("template left empty", `spec.agents.0.template: {}`, `template needs a container, which becomes the agent`),
	Entry("template without containers", `spec.agents.0.template: {spec: {containers: []}}`,
		`template needs a container, which becomes the agent`),

	Entry("capability with a space", `spec.agents.0.capabilities: [deep thought]`, `spec.agents[0].capabilities[0] in body should match`),
	Entry("empty capability", `spec.agents.0.capabilities: [""]`, `spec.agents[0].capabilities[0] in body should be at least 1 chars long`),
	Entry("capability too long", `spec.agents.0.capabilities: [`+letters(64)+`]`, `may not be more than 63 bytes`),
	Entry("the same capability twice", `spec.agents.0.capabilities: [go, go]`, `Duplicate value: "go"`),
	Entry("too many capabilities", `spec.agents.0.capabilities: `+listOf(33, `c%d`), `must have at most 32 items`),
	Entry("slots below 1", `spec.agents.0.slots: 0`, `spec.agents[0].slots in body should be greater than or equal to 1`),
	Entry("slots above 1000", `spec.agents.0.slots: 1001`, `spec.agents[0].slots in body should be less than or equal to 1000`),
	Entry("a lease below 10 s", `spec.agents.0.leaseSeconds: 9`, `spec.agents[0].leaseSeconds in body should be greater than or equal to 10`),
	Entry("a lease above an hour", `spec.agents.0.leaseSeconds: 3601`,
		`spec.agents[0].leaseSeconds in body should be less than or equal to 3600`),
	Entry("slots as a fraction", `spec.agents.0.slots: 1.5`, `must be of type integer`),
	Entry("weight below 1", `spec.agents.0.weight: 0`, `spec.agents[0].weight in body should be greater than or equal to 1`),
	Entry("weight above 1000", `spec.agents.0.weight: 1001`, `spec.agents[0].weight in body should be less than or equal to 1000`),

	Entry("storage without a size", `spec.agents.0.storage: {retention: Retain}`, `spec.agents[0].storage.size: Required value`),
	Entry("size that is no quantity", `spec.agents.0.storage.size: big`, `spec.agents[0].storage.size in body should match`),
	Entry("size of nothing", `spec.agents.0.storage.size: "0"`, `storage size must be above 0: write a size such as 1Gi`),
	Entry("size without end", `spec.agents.0.storage.size: "100000000000000000000000000000000"`, `Too long: may not be more than 32 bytes`),
	Entry("unknown retention", `spec.agents.0.storage.retention: Keep`, `supported values: "Retain", "Delete"`),
	Entry("empty storage class", `spec.agents.0.storage.storageClassName: ""`, `storageClassName in body should be at least 1 chars long`),

	Entry("runtime of no kind", `spec.agents.0.runtime: {}`, `runtime needs exactly one of exec and http`),
	Entry("runtime of two kinds", `spec.agents.0.runtime.http: {port: 80}`, `runtime needs exactly one of exec and http`),
	Entry("no command", `spec.agents.0.runtime.exec.command: []`, `command in body should have at least 1 items`),
	Entry("nameless command", `spec.agents.0.runtime.exec.command: [""]`, `the first word of command is the program: write its path`),
	Entry("argument too long", `spec.agents.0.runtime.exec.command: [a, `+letters(4097)+`]`, `may not be more than 4096 bytes`),
	Entry("too many arguments", `spec.agents.0.runtime.exec.command: `+listOf(65, `a%d`), `must have at most 64 items`),
	Entry("grace below 0", `spec.agents.0.runtime.exec.gracePeriodSeconds: -1`,
		`gracePeriodSeconds in body should be greater than or equal to 0`),
	Entry("grace above an hour", `spec.agents.0.runtime.exec.gracePeriodSeconds: 3601`,
		`gracePeriodSeconds in body should be less than or equal to 3600`),
	Entry("http without a port", `spec.agents.0.runtime: {http: {path: /task}}`, `spec.agents[0].runtime.http.port: Required value`),
	Entry("port 0", `spec.agents.0.runtime: {http: {port: 0}}`, `port in body should be greater than or equal to 1`),
	Entry("port above 65535", `spec.agents.0.runtime: {http: {port: 65536}}`, `port in body should be less than or equal to 65535`),
	Entry("path without a slash", `spec.agents.0.runtime: {http: {port: 80, path: task}}`, `path in body should match '^/`),

	Entry("no template", `spec.agents.0.template: null`, `spec.agents[0].template: Required value`),
	Entry("template without containers", `spec.agents.0.template: {spec: {}}`, `spec.agents[0].template.spec.containers: Required value`),
	Entry("template with a wrong type", `spec.agents.0.template.spec.containers.0.image: 5`, `must be of type string`),
	Entry("template with a misspelt field", `spec.agents.0.template.spec.restartPolice: Always`,
		`unknown field "spec.agents[0].template.spec.restartPolice"`),
	Entry("template with an ephemeral container", `spec.agents.0.template.spec.ephemeralContainers: [{name: debug}]`, `unknown field`),

	Entry("autoscaling mode as YAML's boolean", `spec.autoscaling.mode: Off`, `must be of type string: "boolean"`),
	Entry("unknown autoscaling mode", `spec.autoscaling.mode: Queue`, `supported values: "Off", "Backlog"`),
	Entry("target below 1", `spec.autoscaling.targetBacklogPerAgent: 0`, `targetBacklogPerAgent in body should be greater than or equal to 1`),
	Entry("target above 10000", `spec.autoscaling.targetBacklogPerAgent: 10001`,
		`targetBacklogPerAgent in body should be less than or equal to 10000`),
	Entry("scale-down before now", `spec.autoscaling.scaleDownAfterSeconds: -1`,
		`scaleDownAfterSeconds in body should be greater than or equal to 0`),
	Entry("scale-down after more than a day", `spec.autoscaling.scaleDownAfterSeconds: 86401`,
		`scaleDownAfterSeconds in body should be less than or equal to 86400`),
	Entry("unknown prediction", `spec.autoscaling.predictive: Perhaps`, `supported values: "Off", "On"`),
	Entry("prediction without a backlog", `spec.autoscaling.predictive: "On"`, `set autoscaling.mode to Backlog`),

	Entry("finishedLimit below 0", `spec.tasks.finishedLimit: -1`, `finishedLimit in body should be greater than or equal to 0`),
	Entry("finishedLimit above 100000", `spec.tasks.finishedLimit: 100001`, `finishedLimit in body should be less than or equal to 100000`),
	Entry("time to live below 0", `spec.tasks.ttlSecondsAfterFinished: -1`,
		`ttlSecondsAfterFinished in body should be greater than or equal to 0`),
	Entry("time to live above a year", `spec.tasks.ttlSecondsAfterFinished: 31536001`,
		`ttlSecondsAfterFinished in body should be less than or equal to 31536000`),
	Entry("tenant limit below 0", `spec.tasks.maxInFlightPerTenant: -1`, `maxInFlightPerTenant in body should be greater than or equal to 0`),
	Entry("floor below 0", `spec.spread.minOnDemand: -1`, `minOnDemand in body should be greater than or equal to 0`),
	Entry("floor above 1000", `spec.spread.minOnDemand: 1001`, `minOnDemand in body should be less than or equal to 1000`),
	Entry("spot share below 0", `spec.spread.spotPercentage: -1`, `spotPercentage in body should be greater than or equal to 0`),
	Entry("spot share above 100", `spec.spread.spotPercentage: 101`, `spotPercentage in body should be less than or equal to 100`),
	Entry("spot share with a percent sign", `spec.spread.spotPercentage: 60%`, `must be of type integer`),
	Entry("data source without a name", `spec.dataSource: {}`, `spec.dataSource.snapshot: Required value`),
	Entry("data source with an impossible name", `spec.dataSource.snapshot: Nightly_41`, `spec.dataSource.snapshot in body should match`),
)

var _ = DescribeTable("an Agent is refused", expectRefused(agent),
	Entry("no swarm", `spec.swarmRef: null`, `spec.swarmRef: Required value`),
	Entry("nameless swarm", `spec.swarmRef.name: ""`, `spec.swarmRef.name in body should be at least 1 chars long`),
	Entry("no type", `spec.type: null`, `spec.type: Required value`),
	Entry("type in capitals", `spec.type: Coder`, `spec.type in body should match`),
	Entry("type too long", `spec.type: `+letters(51), `may not be more than 50 bytes`),
	Entry("slots below 1", `spec.slots: 0`, `spec.slots in body should be greater than or equal to 1`),
	Entry("slots above 1000", `spec.slots: 1001`, `spec.slots in body should be less than or equal to 1000`),
	Entry("the same capability twice", `spec.capabilities: [go, go]`, `Duplicate value: "go"`),
	Entry("too many capabilities", `spec.capabilities: `+listOf(33, `c%d`), `must have at most 32 items`),
)
