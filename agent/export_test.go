package agent

import "time"

// SetClock replaces the clock by which the agent keeps its lease.
func (c *Config) SetClock(clock func() time.Duration) { c.clock = clock }

// SetStuckTimeout replaces how long an attempt may run on after it was killed.
func (c *Config) SetStuckTimeout(timeout time.Duration) { c.stuckTimeout = timeout }
