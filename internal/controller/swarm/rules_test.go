package swarm

import (
	"strings"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// A leader that has never seen the swarm without the annotation behaves like one that has.
func TestPausedSwarmAssignsNothingUnderAnyLeader(t *testing.T) {
	for _, governed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			swarm := newSwarm(nil)
			r, e := newEnvironment(t, interceptor.Funcs{}, swarm)
			first, next := newTask("research", "a"), newTask("research", "b")
			if governed {
				e.startTask(t, first)
			}
			before := len(e.assignments())
			r.pauseAssignment(client.ObjectKeyFromObject(swarm))
			e.dispatcher.Observe(next, dispatch.TaskInput{})
			e.runDispatcher()
			view := e.dispatcher.Observe(next, dispatch.TaskInput{})
			if len(e.assignments()) != before || view.Wait == nil || view.Wait.Reason != v1alpha1.ReasonPaused ||
				!strings.Contains(view.Wait.Message, "swarm.io/paused") {
				t.Errorf("governed before: %v; %d given out, waits %+v", governed, len(e.assignments())-before, view.Wait)
			}
		})
	}
}
