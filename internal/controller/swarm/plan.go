package swarm

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/internal/swarm/topology"
)

// Plan is the difference between the wanted and the actual state. An empty plan makes no request.
type Plan struct {
	Apply  []client.Object
	Delete []client.Object
}

// desiredSwarm returns the swarm with the number of agents of each type.
func desiredSwarm(swarm *v1alpha1.Swarm, settings manifest.Settings) manifest.Swarm {
	return manifest.Swarm{Swarm: swarm, Counts: agentCounts(swarm), Settings: settings}
}

// leavingAgents returns the existing agents that should not exist: the last ones of each type, and all of a removed type.
func leavingAgents(desired manifest.Swarm, agents []v1alpha1.Agent) []string {
	desiredNames := desired.AgentNames()
	var names []string
	for n := range agents {
		if !slices.Contains(desiredNames, agents[n].Name) {
			names = append(names, agents[n].Name)
		}
	}
	slices.Sort(names)
	return names
}

// limitScaleIn limits scale-in to what is possible now: a StatefulSet shrinks from its end, and only as far as its last agents are known to
// hold nothing.
func limitScaleIn(desired manifest.Swarm, snapshot snapshot) manifest.Swarm {
	limited := desired
	limited.Counts = slices.Clone(desired.Counts)
	for n, kind := range desired.Spec.Agents {
		for m := range snapshot.agents {
			agent := &snapshot.agents[m]
			if ordinal, ours := desired.Ordinal(kind.Type, agent.Name); ours && snapshot.mayHoldAttempts(agent.Name) {
				limited.Counts[n] = max(limited.Counts[n], ordinal+1)
			}
		}
	}
	return limited
}

func agentCounts(swarm *v1alpha1.Swarm) []int {
	agents := desiredReplicas(swarm)
	if swarm.Spec.Strategy != v1alpha1.SwarmSpecialized {
		return topology.EvenCounts(agents, len(swarm.Spec.Agents))
	}
	weights := make([]int, 0, len(swarm.Spec.Agents))
	for _, kind := range swarm.Spec.Agents {
		weights = append(weights, max(1, int(kind.Weight)))
	}
	return topology.WeightedCounts(agents, weights)
}

// desiredReplicas limits replicas to their bounds. A suspended swarm has none.
func desiredReplicas(swarm *v1alpha1.Swarm) int {
	if swarm.Spec.Mode == v1alpha1.SwarmSuspended {
		return 0
	}
	replicas, minimum := 1, 1
	if swarm.Spec.Replicas != nil {
		replicas = int(*swarm.Spec.Replicas)
	}
	if swarm.Spec.MinAgents != nil {
		minimum = int(*swarm.Spec.MinAgents)
	}
	return min(max(replicas, minimum), int(swarm.Spec.MaxAgents))
}

// plan compares. Objects of ours that are not wanted are deleted.
func plan(desired manifest.Swarm, snapshot snapshot) Plan {
	var plan Plan
	existing := snapshot.objects()
	desiredKeys := map[string]bool{}
	for _, object := range desiredObjects(desired) {
		desiredKeys[identity(object)] = true
		if !slices.ContainsFunc(existing, func(found client.Object) bool {
			return identity(found) == identity(object) && contains(fieldsOf(found), comparableFields(object))
		}) {
			plan.Apply = append(plan.Apply, object)
		}
	}
	for _, object := range existing {
		if !desiredKeys[identity(object)] && object.GetDeletionTimestamp().IsZero() && !snapshot.mayBeInUse(object) {
			plan.Delete = append(plan.Delete, object)
		}
	}
	return plan
}

func desiredObjects(desired manifest.Swarm) []client.Object {
	all := []client.Object{desired.Service(), desired.Config()}
	for _, workload := range desired.StatefulSets() {
		all = append(all, workload)
	}
	for _, agent := range desired.Agents() {
		all = append(all, agent)
	}
	return all
}

// identity identifies an object within a swarm. Objects from the cache do not carry their kind, so that the Go type stands for it.
func identity(object client.Object) string { return fmt.Sprintf("%T %s", object, object.GetName()) }

// fieldsOf returns an object without the fields that only the API server writes.
func fieldsOf(object client.Object) map[string]any {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil // never for API types; the object is then applied, and the API server reports what is wrong
	}
	delete(fields, "status")
	delete(fields, "apiVersion")
	delete(fields, "kind")
	return fields
}

// comparableFields returns the content of a wanted object without what objects from the cache lack: the cache reads protobuf, in which
// volume claims do not carry their kind.
func comparableFields(object client.Object) map[string]any {
	fields := fieldsOf(object)
	spec, _ := fields["spec"].(map[string]any)
	templates, _ := spec["volumeClaimTemplates"].([]any)
	for _, template := range templates {
		if claim, ok := template.(map[string]any); ok {
			delete(claim, "apiVersion")
			delete(claim, "kind")
		}
	}
	return fields
}

// contains reports whether found has everything that is wanted. Additions by the API server or other writers do not matter.
func contains(actual, desired any) bool {
	switch desired := desired.(type) {
	case nil:
		return true
	case map[string]any:
		fields, _ := actual.(map[string]any)
		for key, value := range desired {
			if !contains(fields[key], value) {
				return false
			}
		}
		return true
	case []any:
		items, _ := actual.([]any)
		return len(items) == len(desired) && !slices.ContainsFunc(indices(desired), func(n int) bool { return !contains(items[n], desired[n]) })
	default:
		return reflect.DeepEqual(actual, desired)
	}
}

func indices(items []any) []int {
	all := make([]int, len(items))
	for n := range all {
		all[n] = n
	}
	return all
}
