package lease

import (
	"testing"
	"time"
)

const second = time.Second

func TestLeaseCountsFromTheSendingOfWhatWasEchoed(t *testing.T) {
	var l Lease
	if l.Phase(0) != NotGranted {
		t.Fatal("an agent that was never welcomed has a lease")
	}
	l.Reconnect(100 * second)
	l.RecordWelcome(15 * second)
	assertPhases(t, &l, 100*second)

	l.RecordHeartbeat(1, 105*second)
	l.RecordHeartbeat(2, 110*second)
	assertPhases(t, &l, 100*second) // sending alone does not extend the lease
	l.RecordEcho(1)
	assertPhases(t, &l, 105*second)
	l.RecordEcho(7) // never sent
	l.RecordEcho(1) // a second time
	assertPhases(t, &l, 105*second)
	l.RecordEcho(2)
	assertPhases(t, &l, 110*second)
}

func TestNewStreamDoesNotProlongBeforeItsWelcome(t *testing.T) {
	var l Lease
	l.Reconnect(0)
	l.RecordWelcome(15 * second)
	l.RecordHeartbeat(5, 3*second)
	l.Reconnect(8 * second)
	assertPhases(t, &l, 0)
	l.RecordEcho(5) // from the stream that was dropped
	assertPhases(t, &l, 0)
	l.RecordWelcome(9 * second)
	if l.SilentAt() != 14*second || l.ExpiresAt() != 17*second || l.HeartbeatInterval() != 3*second {
		t.Errorf("silence %v, end %v, beat %v: want the new length from the new Hello", l.SilentAt(), l.ExpiresAt(), l.HeartbeatInterval())
	}
}

// A Welcome that took longer than the lease is useless: the work may have moved to another agent.
func TestLateWelcomeIsAlreadyOver(t *testing.T) {
	var l Lease
	l.Reconnect(0)
	l.RecordWelcome(15 * second)
	if got := l.Phase(20 * second); got != Expired {
		t.Errorf("phase %v, want Over", got)
	}
}

// With the default lease of 45 s a program is asked to stop more than 28 s after the last heartbeat that was echoed, whatever its grace.
func TestWorkIsAskedToStopBeforeTheEnd(t *testing.T) {
	for _, c := range []struct{ length, grace, want time.Duration }{
		{45 * second, 30 * second, 45*second - 11250*time.Millisecond},
		{45 * second, 5 * second, 40 * second},
		{45 * second, 0, 45 * second},
		{10 * second, 30 * second, 7500 * time.Millisecond},
	} {
		var l Lease
		l.Reconnect(0)
		l.RecordWelcome(c.length)
		if got := l.StopAt(c.grace); got != c.want {
			t.Errorf("lease %v, grace %v: asked to stop after %v, want %v", c.length, c.grace, got, c.want)
		}
	}
}

func TestHeartbeatsAreNeverFarApart(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{9 * second: 3 * second, 15 * second: 5 * second, 45 * second: 5 * second,
		time.Hour: 5 * second} {
		var l Lease
		l.Reconnect(0)
		l.RecordWelcome(length)
		if l.HeartbeatInterval() != want || l.SilentAt() != 2*want {
			t.Errorf("lease %v: a heartbeat every %v, silent after %v", length, l.HeartbeatInterval(), l.SilentAt())
		}
	}
}

func assertPhases(t *testing.T, l *Lease, from time.Duration) {
	t.Helper()
	for at, want := range map[time.Duration]Phase{0: Held, 10*second - 1: Held, 10 * second: Silent, 15*second - 1: Silent,
		15 * second: Expired} {
		if got := l.Phase(from + at); got != want {
			t.Errorf("%v after the sending the phase is %v, want %v", at, got, want)
		}
	}
}
