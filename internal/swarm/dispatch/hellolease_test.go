package dispatch

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// The Agent object was deleted, so neither the lease that the former leader sent nor what the agent runs is stored. Its Hello
// names both. The Welcome to it may be lost: then the agent keeps the former lease.
func TestWorkThatIsNotStoredExpiresByTheLeaseInHello(t *testing.T) {
	for name, agents := range map[string][]v1alpha1.Agent{"made again": {*agentWithLease(0)}, "the object is gone": nil} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, nil, func(t *testing.T, f *fixture) {
				f.resetReady()
				f.Open(Snapshot{Agents: agents})
				f.setSwarms("s")
				task := f.createTask("t", "s")
				running := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1}
				granted := f.openStream(t, &linkv1.Hello{Running: []*linkv1.Attempt{running}, Lease: durationpb.New(time.Minute)})
				if granted >= time.Minute {
					t.Fatalf("told %s", granted)
				}
				f.Left(leasedAgent)
				f.requireLostAfter(t, task, leaseTimeout(time.Minute))
			})
		})
	}
}
