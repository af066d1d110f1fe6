package linktest

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// Attempt returns the first attempt at the task, with an epoch.
func Attempt(task string, epoch int64) *linkv1.Attempt {
	return &linkv1.Attempt{Namespace: "default", Task: task, TaskUid: "uid-of-" + task, Attempt: 1, Epoch: epoch}
}

// Assign assigns an attempt with a payload and a short grace period.
func Assign(attempt *linkv1.Attempt, payload string) *linkv1.OperatorMessage {
	return AssignWith(&linkv1.Assign{Attempt: attempt, Payload: []byte(payload), Grace: durationpb.New(200 * time.Millisecond)})
}

// AssignWith wraps any assignment.
func AssignWith(assign *linkv1.Assign) *linkv1.OperatorMessage {
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Assign{Assign: assign}}
}

// Cancel ends an attempt with a grace period.
func Cancel(attempt *linkv1.Attempt, grace time.Duration) *linkv1.OperatorMessage {
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Cancel{Cancel: &linkv1.Cancel{Attempt: attempt, Reason: "Cancelled",
		Grace: durationpb.New(grace)}}}
}

// Drain drains the agent; running attempts may continue for a while.
func Drain(finish time.Duration) *linkv1.OperatorMessage {
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Drain{Drain: &linkv1.Drain{Finish: durationpb.New(finish),
		Reason: "ScaleIn"}}}
}

// Acknowledge acknowledges a result.
func Acknowledge(attempt *linkv1.Attempt) *linkv1.OperatorMessage {
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Acknowledge{Acknowledge: &linkv1.Acknowledge{Attempt: attempt}}}
}

// Peers sends the names of the peers.
func Peers(names ...string) *linkv1.OperatorMessage {
	peers := &linkv1.Peers{}
	for _, name := range names {
		peers.Peers = append(peers.Peers, &linkv1.Peer{Agent: name})
	}
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Peers{Peers: peers}}
}
