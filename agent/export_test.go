package agent

import "time"

// SetClock replaces the clock of the agent's lease.
func (c *Config) SetClock(clock func() time.Duration) { c.clock = clock }

// SetStuckTimeout replaces how long an attempt may continue after it was killed.
func (c *Config) SetStuckTimeout(timeout time.Duration) { c.stuckTimeout = timeout }
