package watchdog

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeMachine has a clock that continues while the machine is suspended.
type fakeMachine struct {
	*Watchdog
	start                        time.Time
	suspended                    atomic.Int64
	killed, expiredCalls, exited atomic.Int64
}

func (m *fakeMachine) clock() time.Duration {
	return time.Since(m.start) + time.Duration(m.suspended.Load())
}

// withWatchdog runs a test with a watchdog whose deadline is 10 s away.
func withWatchdog(t *testing.T, grace time.Duration, test func(t *testing.T, m *fakeMachine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &fakeMachine{start: time.Now()}
		m.Watchdog = Start(Config{
			Clock: m.clock, Grace: grace,
			Expired: func() { m.expiredCalls.Add(1) }, Exit: func() { m.exited.Add(1) },
		})
		m.SetDeadline(10 * time.Second)
		test(t, m)
		m.Stop()
	})
}

func (m *fakeMachine) addTarget() (release func()) { return m.Watch(func() { m.killed.Add(1) }) }

func (m *fakeMachine) expect(t *testing.T, killed bool, expiredCalls, exited int64) {
	t.Helper()
	synctest.Wait()
	if (m.killed.Load() > 0) != killed || m.expiredCalls.Load() != expiredCalls || m.exited.Load() != exited {
		t.Errorf("killed %d times, told %d times, exited %d times; want %t, %d, %d", m.killed.Load(), m.expiredCalls.Load(), m.exited.Load(),
			killed, expiredCalls, exited)
	}
}

func TestTargetsAreKilledAtTheDeadline(t *testing.T) {
	withWatchdog(t, 0, func(t *testing.T, m *fakeMachine) {
		release := m.addTarget()
		time.Sleep(10*time.Second - time.Millisecond)
		m.expect(t, false, 0, 0)
		time.Sleep(Tick)
		m.expect(t, true, 1, 0)
		release()
		time.Sleep(time.Hour)
		m.expect(t, true, 1, 0) // a target that ends in time has no further effect
	})
}

func TestALaterDeadlineIsObserved(t *testing.T) {
	withWatchdog(t, 0, func(t *testing.T, m *fakeMachine) {
		defer m.addTarget()()
		time.Sleep(9 * time.Second)
		m.SetDeadline(20 * time.Second)
		time.Sleep(10 * time.Second)
		m.expect(t, false, 0, 0)
		m.SetDeadline(0)
		time.Sleep(Tick)
		m.expect(t, true, 1, 0)
	})
}

func TestNoWatchdogWatchesNothing(t *testing.T) {
	var none *Watchdog
	none.Watch(func() { t.Error("killed") })()
	if none.Passed() {
		t.Error("a deadline has passed that was not set")
	}
}

func TestWithoutADeadlineNothingRuns(t *testing.T) {
	withWatchdog(t, 0, func(t *testing.T, m *fakeMachine) {
		if m.Passed() {
			t.Error("the deadline of 10 s has passed at once")
		}
		m.SetDeadline(0)
		if !m.Passed() {
			t.Error("something may start without a deadline")
		}
		defer m.addTarget()()
		time.Sleep(Tick)
		m.expect(t, true, 1, 0)
	})
}

func TestTheProcessEndsWhenATargetSurvives(t *testing.T) {
	for name, c := range map[string]struct{ grace, after time.Duration }{
		"after a second":  {0, time.Second},
		"after the grace": {4 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withWatchdog(t, c.grace, func(t *testing.T, m *fakeMachine) {
				m.addTarget()
				time.Sleep(10*time.Second + c.after - time.Millisecond)
				m.expect(t, true, 1, 0)
				time.Sleep(Tick)
				m.expect(t, true, 1, 1)
				time.Sleep(time.Minute)
				m.expect(t, true, 1, 1)
			})
		})
	}
}

// Timers stand still while the machine is suspended; the clock does not.
func TestASuspensionIsNoticedWithinATick(t *testing.T) {
	withWatchdog(t, 4*time.Second, func(t *testing.T, m *fakeMachine) {
		m.addTarget()
		time.Sleep(time.Second + Tick/2)
		m.suspended.Store(int64(time.Hour))
		time.Sleep(Tick)
		m.expect(t, true, 1, 0)
		time.Sleep(DeathTimeout - Tick)
		m.expect(t, true, 1, 0) // targets always have a second to go
		time.Sleep(2 * Tick)
		m.expect(t, true, 1, 1)
	})
}

func TestATargetThatComesTooLateIsKilled(t *testing.T) {
	withWatchdog(t, 0, func(t *testing.T, m *fakeMachine) {
		time.Sleep(time.Minute)
		m.expect(t, false, 0, 0)
		m.addTarget()
		time.Sleep(Tick)
		m.expect(t, true, 1, 0)
	})
}

// Short targets that come and go must not keep the watchdog from checking.
func TestManyTargetsDoNotDelayTheWatch(t *testing.T) {
	withWatchdog(t, 0, func(t *testing.T, m *fakeMachine) {
		m.addTarget()
		for range 220 {
			time.Sleep(Tick / 2)
			m.Watch(func() {})()
		}
		m.expect(t, true, 1, 1)
	})
}

func TestANewDeadlineBeginsAnew(t *testing.T) {
	withWatchdog(t, 0, func(t *testing.T, m *fakeMachine) {
		m.addTarget()
		time.Sleep(15 * time.Second)
		m.expect(t, true, 1, 1)
		m.SetDeadline(30 * time.Second)
		time.Sleep(Tick)
		m.killed.Store(0)
		time.Sleep(10 * time.Second)
		m.expect(t, false, 1, 1)
		time.Sleep(10 * time.Second)
		m.expect(t, true, 2, 2)
	})
}
