package spread

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/chronicle"
)

// watched records a workload's pods from now on, until the spec ends.
func watched(ctx context.Context, workload client.Object) *chronicle.Recorder {
	GinkgoHelper()
	return chronicle.Watch(ctx, api, namespace, of(workload))
}

// turns are what has happened until now, in order: a class, and whether a pod began to serve there or to leave.
func turns(seen *chronicle.Recorder) (lines []string) {
	for _, turn := range seen.Changes() {
		if turn.Available {
			lines = append(lines, serves(nodes[turn.Node]))
		} else {
			lines = append(lines, leaves(nodes[turn.Node]))
		}
	}
	return lines
}

// count is how often something has happened.
func count(seen *chronicle.Recorder, line string) (count int) {
	for _, one := range turns(seen) {
		if one == line {
			count++
		}
	}
	return count
}

func leaves(class string) string { return class + " leaves" }

func serves(class string) string { return class + " serves" }
