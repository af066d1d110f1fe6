package swarm

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/manifest"
	"github.com/swarm-io/swarm-operator/internal/topology"
)

// Plan is the difference between the wanted and the actual state. An empty plan makes no request.
type Plan struct {
	Apply  []client.Object
	Delete []client.Object
}

// want returns the swarm with the number of agents of each type.
func want(swarm *v1alpha1.Swarm, settings manifest.Settings) manifest.Swarm {
	return manifest.Swarm{Swarm: swarm, Counts: counts(swarm), Settings: settings}
}

// leaving returns the existing agents that should not exist: the last ones of each type, and all of a removed type.
func leaving(wanted manifest.Swarm, agents []v1alpha1.Agent) []string {
	stay := wanted.AgentNames()
	var names []string
	for n := range agents {
		if !slices.Contains(stay, agents[n].Name) {
			names = append(names, agents[n].Name)
		}
	}
	slices.Sort(names)
	return names
}

// drained limits scale-in to what is possible now: a StatefulSet shrinks from its end, and only as far as its last agents are known to
// hold nothing.
func drained(wanted manifest.Swarm, world world) manifest.Swarm {
	reached := wanted
	reached.Counts = slices.Clone(wanted.Counts)
	for n, kind := range wanted.Spec.Agents {
		for m := range world.agents {
			agent := &world.agents[m]
			if ordinal, ours := wanted.Ordinal(kind.Type, agent.Name); ours && world.mayHold(agent.Name) {
				reached.Counts[n] = max(reached.Counts[n], ordinal+1)
			}
		}
	}
	return reached
}

func counts(swarm *v1alpha1.Swarm) []int {
	agents := wantedAgents(swarm)
	if swarm.Spec.Strategy != v1alpha1.SwarmSpecialized {
		return topology.EvenCounts(agents, len(swarm.Spec.Agents))
	}
	weights := make([]int, 0, len(swarm.Spec.Agents))
	for _, kind := range swarm.Spec.Agents {
		weights = append(weights, max(1, int(kind.Weight)))
	}
	return topology.WeightedCounts(agents, weights)
}

// wantedAgents limits replicas to their bounds. A suspended swarm has none.
func wantedAgents(swarm *v1alpha1.Swarm) int {
	if swarm.Spec.Mode == v1alpha1.SwarmSuspended {
		return 0
	}
	replicas, least := 1, 1
	if swarm.Spec.Replicas != nil {
		replicas = int(*swarm.Spec.Replicas)
	}
	if swarm.Spec.MinAgents != nil {
		least = int(*swarm.Spec.MinAgents)
	}
	return min(max(replicas, least), int(swarm.Spec.MaxAgents))
}

// plan compares. Objects of ours that are not wanted are deleted.
func plan(wanted manifest.Swarm, world world) Plan {
	var plan Plan
	existing := world.objects()
	kept := map[string]bool{}
	for _, object := range objects(wanted) {
		kept[identity(object)] = true
		if !slices.ContainsFunc(existing, func(found client.Object) bool {
			return identity(found) == identity(object) && contains(content(found), compared(object))
		}) {
			plan.Apply = append(plan.Apply, object)
		}
	}
	for _, object := range existing {
		if !kept[identity(object)] && object.GetDeletionTimestamp().IsZero() && !world.occupied(object) {
			plan.Delete = append(plan.Delete, object)
		}
	}
	return plan
}

func objects(wanted manifest.Swarm) []client.Object {
	all := []client.Object{wanted.Service(), wanted.Config()}
	for _, workload := range wanted.StatefulSets() {
		all = append(all, workload)
	}
	for _, agent := range wanted.Agents() {
		all = append(all, agent)
	}
	return all
}

// identity identifies an object within a swarm. Objects from the cache do not carry their kind, so that the Go type stands for it.
func identity(object client.Object) string { return fmt.Sprintf("%T %s", object, object.GetName()) }

// content returns an object without the fields that only the API server writes.
func content(object client.Object) map[string]any {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil // never for API types; the object is then applied, and the API server reports what is wrong
	}
	delete(fields, "status")
	delete(fields, "apiVersion")
	delete(fields, "kind")
	return fields
}

// compared returns the content of a wanted object without what objects from the cache lack: the cache reads protobuf, in which volume
// claims do not carry their kind.
func compared(object client.Object) map[string]any {
	fields := content(object)
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
func contains(found, wanted any) bool {
	switch wanted := wanted.(type) {
	case nil:
		return true
	case map[string]any:
		fields, _ := found.(map[string]any)
		for key, value := range wanted {
			if !contains(fields[key], value) {
				return false
			}
		}
		return true
	case []any:
		items, _ := found.([]any)
		return len(items) == len(wanted) && !slices.ContainsFunc(indices(wanted), func(n int) bool { return !contains(items[n], wanted[n]) })
	default:
		return reflect.DeepEqual(found, wanted)
	}
}

func indices(items []any) []int {
	all := make([]int, len(items))
	for n := range all {
		all[n] = n
	}
	return all
}
