package agent

import "time"

// SetClock replaces the clock by which the agent keeps its lease.
func (c *Config) SetClock(clock func() time.Duration) { c.clock = clock }
