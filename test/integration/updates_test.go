package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = DescribeTable("a stored object refuses a change of",
	func(ctx SpecContext, of base, before, changes, sentence string) {
		object := createObject(ctx, of.withChanges(before))
		change(object, changes)
		expectRefusal(api.Update(ctx, object), sentence)
	},
	Entry("a Swarm's storage size", swarm, `{}`, `spec.agents.0.storage.size: 2Gi`, `storage size cannot change`),
	Entry("a Swarm's storage class", swarm, `{}`, `spec.agents.0.storage.storageClassName: fast`, `storageClassName cannot change`),
	Entry("a Swarm's storage into none", swarm, `{}`, `spec.agents.0.storage: null`,
		`storage cannot be added to or removed from an agent type that exists`),
	Entry("no storage into some", swarm, `spec.agents.0.storage: null`, `spec.agents.0.storage: {size: 1Gi}`, `declare a new type`),
	Entry("no data source into one", swarm, `{}`, `spec.dataSource.snapshot: nightly-1`, `dataSource counts only when a swarm is created`),
	Entry("a Swarm's data source", swarm, `spec.dataSource.snapshot: nightly-1`, `spec.dataSource.snapshot: nightly-2`,
		`create a new Swarm from that snapshot`),
	Entry("maxAgents to below what the ring needs", swarm, `spec.topology: ring`, `spec.maxAgents: 2`, `ring needs maxAgents of 3 or more`),

	Entry("an Agent's swarm", agent, `{}`, `spec.swarmRef.name: other`, `swarmRef cannot change: delete this Agent`),
	Entry("an Agent's type", agent, `{}`, `spec.type: analyst`, `type cannot change: delete this Agent`),

	Entry("a Task's swarm", task, `{}`, `spec.swarmRef.name: other`, `swarmRef cannot change: create a new Task`),
	Entry("a Task's payload", task, `{}`, `spec.payload.topic: wasps`, `payload cannot change: create a new Task`),
	Entry("a Task's payload deep inside", task, `{}`, `spec.payload.depth.pages: [1, 3]`, `payload cannot change: create a new Task`),
	Entry("a Task's payload into none", task, `{}`, `spec.payload: null`, `payload cannot change: create a new Task`),
	Entry("no payload into one", task, `spec.payload: null`, `spec.payload: {a: 1}`, `payload cannot change: create a new Task`),
	Entry("a Task's source of payload", task, `{spec.payload: null, spec.payloadFrom.configMapKeyRef: {name: a, key: k}}`,
		`spec.payloadFrom.configMapKeyRef.name: b`, `payloadFrom cannot change: create a new Task`),
	Entry("a Task's count of items", task, `{}`, `spec.items.count: 11`, `items.count cannot change: create a new Task`),
	Entry("a Task's items into none", task, `{}`, `spec.items: null`, `items cannot be added or removed: create a new Task`),
	Entry("a Task's count into a list", task, `{}`, `spec.items: {list: [a]}`, `items.count cannot change: create a new Task`),
	Entry("a Task's source of items", task, `spec.items: {configMapKeyRef: {name: a, key: k}}`, `spec.items.configMapKeyRef.key: l`,
		`items.configMapKeyRef cannot change`),
	Entry("a Task's strategy", task, `{}`, `spec.strategy: sequential`, `strategy cannot change: create a new Task`),
	Entry("a Task's dependencies", task, `spec.dependsOn: [{task: a}]`, `spec.dependsOn: [{task: b}]`,
		`dependsOn cannot change: create a new Task`),
	Entry("no dependency into one", task, `{}`, `spec.dependsOn: [{task: b}]`, `dependsOn cannot change: create a new Task`),
	Entry("a Task's tenant", task, `spec.tenant: a`, `spec.tenant: b`, `tenant cannot change: create a new Task`),
	Entry("a cancelled Task back to Run", task, `spec.desired: Cancelled`, `spec.desired: Run`,
		`a cancelled task stays cancelled: create a new Task`),

	Entry("a WorkerPool's workload", pool, `{}`, `spec.workers.name: other`, `workers cannot change, since jobs could end up on two workers`),
	Entry("a WorkerPool's kind of workload", pool, `{}`, `spec.workers.kind: Deployment`,
		`workers cannot change, since jobs could end up on two workers`),
	Entry("strategy without its imbalance", pool, `{spec.strategy: Hashed, spec.imbalancePercent: 10}`, `spec.strategy: Sticky`,
		`remove it or choose Hashed`),

	Entry("a SwarmSnapshot's swarm", snapshot, `{}`, `spec.swarmRef.name: other`, `swarmRef cannot change: create a new SwarmSnapshot`),
	Entry("a SwarmSnapshot's storage", snapshot, `{}`, `spec.storage: {pvc: {claimName: c}}`,
		`storage cannot change: create a new SwarmSnapshot`),
	Entry("a single SwarmSnapshot into a schedule", snapshot, `{}`, `spec.schedule: 0 3 * * *`, `a single snapshot cannot become a schedule`),
	Entry("a schedule into a single SwarmSnapshot", snapshot, `spec.schedule: 0 3 * * *`, `spec.schedule: null`, `nor the other way round`),
)

var _ = DescribeTable("a stored object accepts a change of",
	func(ctx SpecContext, of base, before, changes string) {
		object := createObject(ctx, of.withChanges(before))
		change(object, changes)
		Expect(api.Update(ctx, object)).To(Succeed())
	},
	Entry("a Swarm's size and shape", swarm, `{}`, `{spec.replicas: 7, spec.topology: ring, spec.mode: Suspended}`),
	Entry("a Swarm's template, slots and capabilities", swarm, `{}`,
		`{spec.agents.0.template.spec.containers.0.image: "example/agent:2", spec.agents.0.slots: 3, spec.agents.0.capabilities: [go]}`),
	Entry("a Swarm's retention, and its size written otherwise", swarm, `{}`, `spec.agents.0.storage: {size: 1024Mi, retention: Delete}`),
	Entry("a Swarm's types", swarm, `{}`, `spec.agents: `+listOf(2, `{type: t%d, `+template+`}`)),
	Entry("a Swarm's data source into none", swarm, `spec.dataSource.snapshot: nightly-1`, `spec.dataSource: null`),
	Entry("an Agent's offer", agent, `{}`, `{spec.capabilities: [go], spec.slots: 4}`),
	Entry("what steers a Task", task, `{}`,
		`{spec.priority: critical, spec.ttlSecondsAfterFinished: 0, spec.parallelism: 3, spec.capabilities: [go], spec.retry.limit: 0, spec.desired: Suspended}`),
	Entry("a suspended Task back to Run", task, `spec.desired: Suspended`, `spec.desired: Run`),
	Entry("a Task whose items are listed", task, `spec.items: {list: [1, two, {three: 3}]}`, `spec.priority: high`),
	Entry("a WorkerPool's jobs and strategy", pool, `{}`,
		`{spec.jobs: [{name: b}], spec.strategy: Hashed, spec.imbalancePercent: 10, spec.replicas: 0}`),
	Entry("a SwarmSnapshot's schedule", snapshot, `spec.schedule: 0 3 * * *`, `{spec.schedule: "@daily", spec.keep: 30}`),
)

var _ = DescribeTable("a status is refused",
	func(ctx SpecContext, of base, before, after, sentence string) {
		object := createObject(ctx, of.object())
		Expect(writeStatus(ctx, object, before)).To(Succeed(), "the status before is valid")
		expectRefusal(writeStatus(ctx, object, after), sentence)
	},
	Entry("[O08/illegal-transition] Completed back to Running", task, `status: {phase: Completed, progress: 100}`,
		`status: {phase: Running, progress: 99}`, `a finished task keeps its phase: create a new Task`),
	Entry("[O08/illegal-transition] Failed back to Pending", task, `status: {phase: Failed}`, `status: {phase: Pending}`,
		`a finished task keeps its phase`),
	Entry("[O08/illegal-transition] Cancelled to Completed", task, `status: {phase: Cancelled}`, `status: {phase: Completed, progress: 100}`,
		`a finished task keeps its phase`),
	Entry("[O08/illegal-transition] a final phase removed", task, `status: {phase: Failed, reason: BadInput}`, `status: {phase: null}`,
		`a finished task keeps its phase`),
	Entry("[O08/illegal-transition] a final status wiped", task, `status: {phase: Failed}`, `status: null`, `a finished task keeps its phase`),
	Entry("a Task's epoch going back", task, `status: {phase: Running, epoch: 4294967298}`, `status: {epoch: 4294967297}`,
		`epoch never decreases and is never removed`),
	Entry("a Task's epoch removed", task, `status: {phase: Running, epoch: 4294967298}`, `status: {epoch: null}`,
		`epoch never decreases and is never removed`),
	Entry("a fenced Task's status wiped", task, `status: {phase: Running, epoch: 4294967298}`, `status: null`,
		`epoch never decreases and is never removed`),
	Entry("a Task's epoch below 0", task, `{}`, `status: {epoch: -1}`, `epoch in body should be greater than or equal to 0`),
	Entry("a Task's unknown phase", task, `{}`, `status: {phase: Done}`,
		`supported values: "Pending", "Running", "Completed", "Failed", "Cancelled"`),
	Entry("progress below 0", task, `{}`, `status: {progress: -1}`, `progress in body should be greater than or equal to 0`),
	Entry("progress above 100", task, `{}`, `status: {progress: 101}`, `progress in body should be less than or equal to 100`),
	Entry("progress 100 before the end", task, `{}`, `status: {phase: Running, progress: 100}`,
		`progress is 100 exactly when the phase is Completed`),
	Entry("Completed at 99", task, `{}`, `status: {phase: Completed, progress: 99}`, `progress is 100 exactly when the phase is Completed`),
	Entry("more than 64 assigned agents", task, `{}`, `status: {assignedAgents: `+listOf(65, `{name: a%d}`)+`}`, `must have at most 64 items`),
	Entry("a reason of several words", task, `{}`, `status: {reason: no free slot}`, `reason in body should match`),
	Entry("a message too long", task, `{}`, `status: {message: `+letters(4097)+`}`, `may not be more than 4096 bytes`),
	Entry("ranges that are none", task, `{}`, `status: {items: {completedRanges: "0-3;5"}}`, `items.completedRanges in body should match`),

	Entry("a Swarm's epoch going back", swarm, `status: {epoch: 2}`, `status: {epoch: 1}`, `epoch never decreases`),
	Entry("a Swarm's epoch that no operator gives out", swarm, `{}`, `status: {epoch: 6917529027641081857}`,
		`epoch in body should be less than or equal to`),
	Entry("a Swarm's epoch going back from the highest that is believed", swarm, `status: {epoch: 4611686022722355199}`, `status: {epoch: 1}`,
		`epoch never decreases`),
	Entry("a Task's epoch that no operator gives out", task, `{}`, `status: {epoch: 6917529027641081857}`,
		`epoch in body should be less than or equal to`),
	Entry("an assigned agent's epoch that no operator gives out", task, `{}`,
		`status: {assignedAgents: [{name: a, epoch: 6917529027641081857}]}`,
		`epoch in body should be less than or equal to`),
	Entry("a Swarm's unknown phase", swarm, `{}`, `status: {phase: Ready}`, `supported values: "Initializing", "Running", "Terminating"`),
	Entry("fewer than no agents", swarm, `{}`, `status: {activeAgents: -1}`, `activeAgents in body should be greater than or equal to 0`),
	Entry("a type counted twice", swarm, `{}`, `status: {types: [{type: a}, {type: a}]}`, `Duplicate value: {"type":"a"}`),
	Entry("a condition that is neither true nor false", swarm, `{}`,
		`status: {conditions: [{type: Ready, status: Maybe, reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`,
		`supported values: "True", "False", "Unknown"`),
	Entry("too many conditions", swarm, `{}`,
		`status: {conditions: `+listOf(9, `{type: T%d, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`)+`}`,
		`must have at most 8 items`),
	Entry("an Agent's unknown phase", agent, `{}`, `status: {phase: Ready}`, `supported values: "Pending", "Running", "Completed", "Failed"`),
	Entry("more than 64 peers", agent, `{}`, `status: {peers: `+listOf(65, `p%d`)+`}`, `must have at most 64 items`),
	Entry("a heartbeat that is no time", agent, `{}`, `status: {lastHeartbeat: yesterday}`, `must be of type date-time`),
	Entry("an attempt above 100 percent", agent, `{}`, `status: {workload: {running: [{task: t, progress: 101}]}}`,
		`progress in body should be less than or equal to 100`),
	Entry("a WorkerPool's revision going back", pool, `status: {revision: 7}`, `status: {revision: 6}`,
		`revision never decreases: a rollback is a new revision`),
	Entry("a WorkerPool's version going back", pool, `status: {version: 3}`, `status: {version: 2}`, `version never decreases`),
	Entry("a WorkerPool's version going back from the highest that is believed", pool, `status: {version: 4503599627370495}`,
		`status: {version: 1}`,
		`version never decreases`),
	Entry("a WorkerPool's converged revision going back", pool, `status: {revision: 7, convergedRevision: 7}`,
		`status: {convergedRevision: 6}`, `convergedRevision never decreases`),
	Entry("converged before it was made", pool, `status: {revision: 7}`, `status: {convergedRevision: 8}`,
		`a revision converges only after it was made`),
	Entry("a WorkerPool's version that no pool reaches", pool, `{}`, `status: {version: 9007199254740993}`,
		`version in body should be less than or equal to`),
	Entry("a WorkerPool's revision that no pool reaches", pool, `{}`, `status: {revision: 9007199254740993}`,
		`revision in body should be less than or equal to`),
	Entry("a WorkerPool's converged revision that no pool reaches", pool, `status: {revision: 1}`,
		`status: {convergedRevision: 9223372036854775807}`,
		`convergedRevision in body should be less than or equal to`),
	Entry("a worker's revision that no pool reaches", pool, `{}`, `status: {workers: [{name: w, revision: 9007199254740993}]}`,
		`revision in body should be less than or equal to`),
	Entry("more than 100 unassigned jobs", pool, `{}`, `status: {unassigned: `+listOf(101, `j%d`)+`}`, `must have at most 100 items`),
	Entry("a worker twice", pool, `{}`, `status: {workers: [{name: w}, {name: w}]}`, `Duplicate value: {"name":"w"}`),
	Entry("a boolean acknowledgement", pool, `{}`, `status: {workers: [{name: w, acknowledged: true}]}`, `must be of type string: "boolean"`),
	Entry("a worker's unknown state", pool, `{}`, `status: {workers: [{name: w, state: Dead}]}`,
		`supported values: "Joining", "Ready", "NotReady", "Leaving"`),
	Entry("a SwarmSnapshot's unknown phase", snapshot, `{}`, `status: {phase: Done}`,
		`supported values: "Pending", "Capturing", "Ready", "Failed"`),
	Entry("Ready without a manifest", snapshot, `status: {phase: Capturing}`, `status: {phase: Ready}`,
		`a snapshot is Ready only with its manifest`),
	Entry("a digest that is none", snapshot, `{}`, `status: {manifest: {digest: "md5:1"}}`, `manifest.digest in body should match`),
)

var _ = DescribeTable("a status is accepted in steps",
	func(ctx SpecContext, of base, steps ...string) {
		object := createObject(ctx, of.object())
		for _, step := range steps {
			Expect(writeStatus(ctx, object, step)).To(Succeed(), step)
		}
	},
	Entry("[O08/phases] a Task that is handed back and completes", task,
		`status: {phase: Pending, reason: NoFreeSlot}`, `status: {phase: Running, epoch: 1, progress: 40}`,
		`status: {phase: Pending, progress: 0}`, `status: {phase: Running, epoch: 2, progress: 10}`,
		`status: {phase: Completed, progress: 100, result: "free form"}`,
		`status: {observedGeneration: 1}`),
	Entry("[O08/phases] a Task that fails before it runs", task, `status: {phase: Failed, reason: PayloadTooLarge}`),
	Entry("a Swarm whose status is wiped", swarm, `status: {phase: Running, epoch: 9}`, `status: null`),
	Entry("a Swarm whose epoch was set to one that no operator has given out", swarm, `status: {epoch: 4611686022722355200}`,
		`status: {epoch: 4294967296}`),
	Entry("a WorkerPool whose numbers were set to what no pool reaches", pool,
		`status: {version: 4503599627370496, revision: 9007199254740992, convergedRevision: 9007199254740992}`,
		`status: {version: 3, revision: 2, convergedRevision: 1}`),
	Entry("a WorkerPool whose status is wiped", pool, `status: {revision: 7, version: 9}`, `status: null`),
	Entry("an Agent that comes back", agent, `status: {phase: Failed}`, `status: {phase: Running}`, `status: null`),
	Entry("a SwarmSnapshot that gets ready", snapshot, `status: {phase: Capturing}`,
		`status: {phase: Ready, manifest: {digest: "sha256:`+digest+`", agents: 6, tasks: 2, bytes: 4096}}`),
)

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

var _ = It("a stale write is refused even when it is valid", func(ctx SpecContext) {
	object := createObject(ctx, task.object())
	stale := object.DeepCopy()
	change(object, `spec.priority: high`)
	Expect(api.Update(ctx, object)).To(Succeed())
	change(stale, `spec.priority: low`)
	Expect(api.Update(ctx, stale, client.FieldOwner("late"))).To(MatchError(apierrors.IsConflict, "conflict"))
})
