package task

import "time"

const (
	lease       = 15 * time.Second // unless the cluster has another one
	longestBeat = 5 * time.Second
	grace       = 30 * time.Second
)

// An agentLease is the lease of a simulated agent, by the rules of package lease of the agent.
type agentLease struct {
	length time.Duration // from the last Welcome; 0 before
	from   time.Time     // when the last answered message was sent
}

// beat is the time between heartbeats.
func (l agentLease) beat() time.Duration { return min(l.length/3, longestBeat) }

// silence is when two heartbeats have not been answered: from then on no new work is accepted.
func (l agentLease) silence() time.Time { return l.from.Add(2 * l.beat()) }

// stopAt is when running work is asked to stop.
func (l agentLease) stopAt() time.Time { return l.end().Add(-min(grace, l.length/4)) }

// end is when running work is killed.
func (l agentLease) end() time.Time { return l.from.Add(l.length) }
