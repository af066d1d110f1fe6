package task

import "time"

const (
	lease                = 15 * time.Second // unless the cluster has another one
	maxHeartbeatInterval = 5 * time.Second
	gracePeriod          = 30 * time.Second
)

// An agentLease is the lease of a simulated agent, by the rules of package lease of the agent.
type agentLease struct {
	length time.Duration // from the last Welcome; 0 before
	start  time.Time     // when the last answered message was sent
}

// heartbeatInterval is the time between heartbeats.
func (l agentLease) heartbeatInterval() time.Duration { return min(l.length/3, maxHeartbeatInterval) }

// refuseAt is when two heartbeats have not been answered: from then on no new work is accepted.
func (l agentLease) refuseAt() time.Time { return l.start.Add(2 * l.heartbeatInterval()) }

// stopAt is when running work is asked to stop.
func (l agentLease) stopAt() time.Time { return l.end().Add(-min(gracePeriod, l.length/4)) }

// end is when running work is killed.
func (l agentLease) end() time.Time { return l.start.Add(l.length) }
