package spread

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
)

// watchPods records a workload's pods from now on, until the spec ends.
func watchPods(ctx context.Context, workload client.Object) *podwatch.Recorder {
	GinkgoHelper()
	return podwatch.Watch(ctx, api, namespace, labelsOf(workload))
}

// changes are what has happened until now, in order: a class, and whether a pod began to serve there or to leave.
func changes(seen *podwatch.Recorder) (lines []string) {
	for _, turn := range seen.Changes() {
		if turn.Available {
			lines = append(lines, becameAvailable(nodes[turn.Node]))
		} else {
			lines = append(lines, becameUnavailable(nodes[turn.Node]))
		}
	}
	return lines
}

// count is how often something has happened.
func count(seen *podwatch.Recorder, line string) (count int) {
	for _, one := range changes(seen) {
		if one == line {
			count++
		}
	}
	return count
}

func becameUnavailable(class string) string { return class + " leaves" }

func becameAvailable(class string) string { return class + " serves" }
