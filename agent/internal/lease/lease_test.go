package lease

import (
	"testing"
	"time"
)

const s = time.Second

func TestLeaseCountsFromTheSendingOfWhatWasEchoed(t *testing.T) {
	var l Lease
	if l.Phase(0) != None {
		t.Fatal("an agent that was never welcomed has a lease")
	}
	l.Reconnect(100 * s)
	l.Welcomed(15 * s)
	assertPhases(t, &l, 100*s)

	l.Sent(1, 105*s)
	l.Sent(2, 110*s)
	assertPhases(t, &l, 100*s) // sending alone prolongs nothing
	l.Echoed(1)
	assertPhases(t, &l, 105*s)
	l.Echoed(7) // never sent
	l.Echoed(1) // a second time
	assertPhases(t, &l, 105*s)
	l.Echoed(2)
	assertPhases(t, &l, 110*s)
}

func TestNewStreamDoesNotProlongBeforeItsWelcome(t *testing.T) {
	var l Lease
	l.Reconnect(0)
	l.Welcomed(15 * s)
	l.Sent(5, 3*s)
	l.Reconnect(8 * s)
	assertPhases(t, &l, 0)
	l.Echoed(5) // from the stream that was thrown away
	assertPhases(t, &l, 0)
	l.Welcomed(9 * s)
	if l.Silence() != 14*s || l.End() != 17*s || l.Beat() != 3*s {
		t.Errorf("silence %v, end %v, beat %v: want the new length from the new Hello", l.Silence(), l.End(), l.Beat())
	}
}

// A Welcome that took longer than the lease is of no use: the operator may have given the work away.
func TestLateWelcomeIsAlreadyOver(t *testing.T) {
	var l Lease
	l.Reconnect(0)
	l.Welcomed(15 * s)
	if got := l.Phase(20 * s); got != Over {
		t.Errorf("phase %v, want Over", got)
	}
}

// With the default lease of 45 s a program is asked to stop more than 28 s after the last heartbeat that was echoed, whatever its grace.
func TestWorkIsAskedToStopBeforeTheEnd(t *testing.T) {
	for _, c := range []struct{ length, grace, want time.Duration }{
		{45 * s, 30 * s, 45*s - 11250*time.Millisecond},
		{45 * s, 5 * s, 40 * s},
		{45 * s, 0, 45 * s},
		{10 * s, 30 * s, 7500 * time.Millisecond},
	} {
		var l Lease
		l.Reconnect(0)
		l.Welcomed(c.length)
		if got := l.StopAt(c.grace); got != c.want {
			t.Errorf("lease %v, grace %v: asked to stop after %v, want %v", c.length, c.grace, got, c.want)
		}
	}
}

func TestHeartbeatsAreNeverFarApart(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{9 * s: 3 * s, 15 * s: 5 * s, 45 * s: 5 * s, time.Hour: 5 * s} {
		var l Lease
		l.Reconnect(0)
		l.Welcomed(length)
		if l.Beat() != want || l.Silence() != 2*want {
			t.Errorf("lease %v: a heartbeat every %v, silent after %v", length, l.Beat(), l.Silence())
		}
	}
}

func assertPhases(t *testing.T, l *Lease, from time.Duration) {
	t.Helper()
	for at, want := range map[time.Duration]Phase{0: Held, 10*s - 1: Held, 10 * s: Silent, 15*s - 1: Silent, 15 * s: Over} {
		if got := l.Phase(from + at); got != want {
			t.Errorf("%v after the sending the phase is %v, want %v", at, got, want)
		}
	}
}
