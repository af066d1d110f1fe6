package hostile

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/testkit/rawlink"
)

// hostileAddress is where hostile programs connect from, because pods have addresses of their own.
const hostileAddress = "127.0.0.2"

// An intruderPod is a hostile program with a valid token of its pod.
type intruderPod struct{ rawlink.Agent }

// A script is what a program sends on one stream. It may violate the protocol.
type script iter.Seq[proto.Message]

// sendScript sends a script, as fast as the operator reads, until it is over, the operator ends the stream, or the context ends.
func (p *intruderPod) sendScript(ctx context.Context, messages script) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.Connect(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, err := stream.Recv(); err == nil; _, err = stream.Recv() {
		}
	}()
	for message := range messages {
		if stream.SendMsg(message) != nil {
			break // Recv knows why
		}
		messagesSent.Add(1)
	}
	_ = stream.CloseSend()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	return nil
}

// handBack accepts everything and hands it back at once.
func (p *intruderPod) handBack(ctx context.Context) {
	count, _ := p.AcceptAndHandBack(ctx, intruder, linkv1.Outcome_OUTCOME_HANDED_BACK, linkv1.Outcome_OUTCOME_DECLINED,
		linkv1.Outcome_OUTCOME_RETRY)
	messagesSent.Add(int64(count))
}
