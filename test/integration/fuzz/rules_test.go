package fuzz

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/swarm-io/swarm-operator/internal/testkit/schemafuzz"
)

// Few names, so that objects meet: they refer to each other, to what is missing, and need objects of the same name.
var (
	swarms     = []string{"ants", "ants", "ants-worker", "bees", "a", "b-c", "x0", "ants-config", strings.Repeat("s", 40)}
	agentTypes = []string{"worker", "worker", "coder", "coordinator", "c", "0", strings.Repeat("t", 45)}
	tasks      = []string{"t1", "t2", "t3", "t4", "t5", "t6", "t.dots", "missing"}
	agents     = []string{"ants-worker-0", "ants-worker-1", "bees-coder-0", "a-c-0", "lone", "lone-1"}
	workloads  = []string{"web", "web", "db", "ants-worker", "cam", "missing"}
	configMaps = []string{"jobs", "jobs", "payload", "mixed", "ants-config", "web-config", "db-config", "missing"}
	keys       = []string{"jobs.yaml", "config.yml", "payload", "missing"}
	pools      = []string{"cams", "web", "db", "p1", "p2"}
	snapshots  = []string{"s1", "s2", "ants"}
)

func draw[V any](r *rand.Rand, from []V) V { return from[r.IntN(len(from))] }

// oneOf draws instead of what the schema gives.
func oneOf[V any](from ...V) schemafuzz.Rule {
	return func(r *rand.Rand, _ any) any { return any(draw(r, from)) }
}

// usually lets the value of the schema pass one time in ten.
func usually(rule schemafuzz.Rule) schemafuzz.Rule {
	return func(r *rand.Rand, made any) any {
		if r.IntN(10) == 0 {
			return made
		}
		return rule(r, made)
	}
}

// keepOneOf keeps one of the fields, or one that is made if there is none.
func keepOneOf(byDefault string) schemafuzz.Rule {
	return func(r *rand.Rand, made any) any {
		fields := made.(map[string]any)
		if len(fields) == 0 {
			return object(byDefault)
		}
		kept := draw(r, slices.Sorted(maps.Keys(fields)))
		return map[string]any{kept: fields[kept]}
	}
}

// removeFields removes fields, at the price of one of them.
func removeFields(names ...string) schemafuzz.Rule {
	return func(_ *rand.Rand, made any) any {
		for _, name := range names {
			delete(made.(map[string]any), name)
		}
		return made
	}
}

// rules bring objects together, and repair most of what CEL rules would refuse. Numbers of agents and workers are small: what a thousand of
// them cost is measured elsewhere.
var rules = schemafuzz.Rules{
	"Swarm.spec":                                    usually(swarmSpec),
	"Swarm.spec.replicas":                           oneOf[int64](0, 1, 2, 3, 6),
	"Swarm.spec.minAgents":                          oneOf[int64](0, 1, 2, 4),
	"Swarm.spec.agents.type":                        usually(oneOf(agentTypes...)),
	"Swarm.spec.agents.template":                    template,
	"Swarm.spec.agents.runtime":                     usually(keepOneOf(`{exec: {command: [run]}}`)),
	"Swarm.spec.agents.storage.size":                usually(oneOf("1Gi", "1000Mi", "1", "0.5Gi")),
	"Swarm.spec.autoscaling.predictive":             usually(oneOf("Off")),
	"Swarm.spec.dataSource.snapshot":                oneOf(snapshots...),
	"Agent.spec.swarmRef.name":                      usually(oneOf(swarms...)),
	"Agent.spec.type":                               usually(oneOf(agentTypes...)),
	"Task.spec":                                     usually(taskSpec),
	"Task.spec.swarmRef.name":                       usually(oneOf(swarms...)),
	"Task.spec.agentType":                           usually(oneOf(agentTypes...)),
	"Task.spec.items":                               usually(keepOneOf(`{count: 3}`)),
	"Task.spec.dependsOn.task":                      oneOf(tasks...),
	"Task.spec.payloadFrom.configMapKeyRef.name":    oneOf(configMaps...),
	"Task.spec.payloadFrom.configMapKeyRef.key":     oneOf(keys...),
	"Task.spec.timeouts":                            usually(ascending("queueSeconds", "heartbeatSeconds", "runSeconds", "totalSeconds")),
	"Task.spec.retry":                               usually(ascending("initialSeconds", "maxSeconds")),
	"WorkerPool.spec":                               usually(poolSpec),
	"WorkerPool.spec.replicas":                      oneOf[int64](0, 1, 3, 5),
	"WorkerPool.spec.workers.name":                  usually(oneOf(workloads...)),
	"WorkerPool.spec.config.name":                   usually(oneOf(configMaps...)),
	"WorkerPool.spec.config.key":                    usually(oneOf(keys...)),
	"WorkerPool.spec.jobsFrom.configMapKeyRef.name": oneOf(configMaps...),
	"WorkerPool.spec.jobsFrom.configMapKeyRef.key":  oneOf(keys...),
	"SwarmSnapshot.spec.swarmRef.name":              usually(oneOf(swarms...)),
	"SwarmSnapshot.spec.schedule":                   usually(oneOf("@hourly", "0 3 * * *", "*/5 0-3 1,15 * 7")),
	"SwarmSnapshot.spec.storage":                    usually(keepOneOf(`{configMap: {}}`)),
	"SwarmSnapshot.spec.storage.pvc.path":           usually(oneOf("", "a/b", ".")),
}

func swarmSpec(r *rand.Rand, made any) any {
	spec := made.(map[string]any)
	if _, exists := spec["maxAgents"]; exists {
		spec["maxAgents"] = draw(r, []int64{4, 10, 1000})
	}
	return spec
}

func taskSpec(r *rand.Rand, made any) any {
	removeFields("minParallel", draw(r, []string{"payload", "payloadFrom"}))(r, made)
	return made
}

func poolSpec(_ *rand.Rand, made any) any {
	spec := made.(map[string]any)
	if spec["strategy"] != "Hashed" {
		delete(spec, "imbalancePercent")
	}
	if workers := spec["workers"].(map[string]any); workers["kind"] == "Deployment" {
		delete(spec, "config")
	}
	return spec
}

// ascending has each of these numbers no smaller than the one before, as far as they are present.
func ascending(names ...string) schemafuzz.Rule {
	return func(_ *rand.Rand, made any) any {
		fields := made.(map[string]any)
		var numbers []int64
		var present []string
		for _, name := range names {
			if number, exists := fields[name].(int64); exists {
				numbers, present = append(numbers, number), append(present, name)
			}
		}
		slices.Sort(numbers)
		for n, name := range present {
			fields[name] = numbers[n]
		}
		return fields
	}
}
