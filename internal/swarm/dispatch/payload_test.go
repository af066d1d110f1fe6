package dispatch

import (
	"slices"
	"testing"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A payload from a ConfigMap can have 512 KiB, and many tasks can wait: the dispatcher never has it.
func TestPayloadByReferenceIsSentWhenTheAssignmentIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		blocked *Wait // when it is stored
		sent    int
	}{
		"it is there":              {nil, 1},
		"it was deleted meanwhile": {&Wait{Reason: v1alpha1.ReasonPayloadNotFound}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, nil, func(t *testing.T, f *fixture) {
				f.setSwarms("s")
				f.joinAgent(t, "a", "s", 1)
				task := f.createTask("t", "s")
				f.Observe(task, TaskInput{PayloadByReference: true})
				f.requireNoneAssigned(t) // its payload is missing
				held := f.Observe(task, TaskInput{PayloadByReference: true, Blocked: c.blocked}).Assignment
				task.Status.Epoch, task.Status.AssignedAgents = held.Epoch, []v1alpha1.AssignedAgent{{Name: held.Agent, Epoch: held.Epoch}}
				f.bumpVersion(task)
				f.MarkStored(task, []byte("{}"))
				sent := slices.DeleteFunc(slices.Clone(f.sent), func(message *linkv1.OperatorMessage) bool { return message.GetAssign() == nil })
				if len(sent) != c.sent || c.sent == 1 && string(sent[0].GetAssign().GetPayload()) != "{}" {
					t.Errorf("sent %v", sent)
				}
			})
		})
	}
}
