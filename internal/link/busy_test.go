package link_test

import (
	"testing"

	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// The consumer may take longer than a lease. Agents must not stop their work for that.
func TestHeartbeatsAreAnsweredWhileTheConsumerIsBusy(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	c, _ := join(t, operator, coder)
	release := operator.Hold()
	defer release()
	c.say(t, credit(1))
	for sequence := range int64(3) {
		c.say(t, heartbeat(sequence))
		if echo := c.hear(t).GetEcho(); echo.GetSequence() != sequence {
			t.Errorf("got %v, want an echo of %d", echo, sequence)
		}
	}
}
