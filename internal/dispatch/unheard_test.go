package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// Before the term is open nothing is known about what agents hold. That is not the same as nothing.
func TestNobodyIsIdleBeforeTheTermIsOpen(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.Board = New(Config{Lease: 15 * time.Second, Leadership: d, Tasks: d, Agents: d, Swarms: d, Metrics: prometheus.NewRegistry()})
		d.Connect(d)
		if attempts, known := d.Busy(inNS("s"), "a"); known {
			t.Errorf("a is known to hold %d attempts", attempts)
		}
		d.Open(Census{})
		d.signals = nil
		d.steps()
		if attempts, known := d.Busy(inNS("s"), "a"); !known || attempts != 0 {
			t.Errorf("%d attempts, known: %t", attempts, known)
		}
		if !slices.Contains(d.signals, signal{"s", 0}) {
			t.Errorf("the swarm is not reconciled again: %v", d.signals)
		}
	})
}

func TestNobodyIsIdleUntilAllAgentsAreHeard(t *testing.T) {
	for name, opens := range map[string]func(t *testing.T, d *desk){
		"all have said what they run": func(t *testing.T, d *desk) { d.joins(t, "b", "s", 1) },
		"their leases are over":       func(*testing.T, *desk) { time.Sleep(lapse(15 * time.Second)) },
	} {
		for _, ruled := range []bool{true, false} {
			atDesk(t, []corev1.Pod{pod("a", "s"), pod("b", "s"), pod("c", "other")}, func(t *testing.T, d *desk) {
				if ruled {
					d.rule("s")
				}
				d.joins(t, "a", "s", 1)
				for _, agent := range []string{"", "a", "b"} {
					if attempts, known := d.Busy(inNS("s"), agent); known {
						t.Errorf("b is not heard, and %q is known to hold %d attempts", agent, attempts)
					}
				}
				opens(t, d)
				d.signals = nil
				d.steps()
				if busy := d.busyOf(inNS("s"), ""); busy != 0 || !slices.Contains(d.signals, signal{"s", 0}) {
					t.Errorf("%s: busy %d, reconciled: %v", name, busy, d.signals)
				}
				d.signals = nil
				d.steps()
				if slices.Contains(d.signals, signal{"s", 0}) {
					t.Errorf("%s: reconciled twice", name)
				}
			})
		}
	}
}
