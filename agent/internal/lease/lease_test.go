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
	if l.Warning() != 14*s || l.End() != 17*s || l.Beat() != 3*s {
		t.Errorf("warning %v, end %v, beat %v: want the new length from the new Hello", l.Warning(), l.End(), l.Beat())
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

func assertPhases(t *testing.T, l *Lease, from time.Duration) {
	t.Helper()
	for at, want := range map[time.Duration]Phase{0: Held, 10*s - 1: Held, 10 * s: Ending, 15*s - 1: Ending, 15 * s: Over} {
		if got := l.Phase(from + at); got != want {
			t.Errorf("%v after the sending the phase is %v, want %v", at, got, want)
		}
	}
}
