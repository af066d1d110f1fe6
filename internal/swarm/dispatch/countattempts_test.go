package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// Before the term is open nothing is known about what agents hold. That is not the same as nothing.
func TestCountAttemptsIsUnknownBeforeOpen(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.Dispatcher = New(Config{Lease: 15 * time.Second, Leadership: f, Tasks: f, Agents: f, Swarms: f, Metrics: prometheus.NewRegistry()})
		f.Connect(f)
		if attempts, known := f.CountAttempts(namespacedName("s"), "a"); known {
			t.Errorf("a is known to hold %d attempts", attempts)
		}
		f.Open(Snapshot{})
		f.triggers = nil
		f.runStep()
		if attempts, known := f.CountAttempts(namespacedName("s"), "a"); !known || attempts != 0 {
			t.Errorf("%d attempts, known: %t", attempts, known)
		}
		if !slices.Contains(f.triggers, triggered{"s", 0}) {
			t.Errorf("the swarm is not reconciled again: %v", f.triggers)
		}
	})
}

func TestCountAttemptsIsUnknownUntilAllAgentsHaveReported(t *testing.T) {
	for name, opens := range map[string]func(t *testing.T, f *fixture){
		"all have said what they run": func(t *testing.T, f *fixture) { f.joinAgent(t, "b", "s", 1) },
		"their leases are over":       func(*testing.T, *fixture) { time.Sleep(leaseTimeout(15 * time.Second)) },
	} {
		for _, ruled := range []bool{true, false} {
			withFixture(t, []corev1.Pod{pod("a", "s"), pod("b", "s"), pod("c", "other")}, func(t *testing.T, f *fixture) {
				if ruled {
					f.setSwarms("s")
				}
				f.joinAgent(t, "a", "s", 1)
				for _, agent := range []string{"", "a", "b"} {
					if attempts, known := f.CountAttempts(namespacedName("s"), agent); known {
						t.Errorf("b is not heard, and %q is known to hold %d attempts", agent, attempts)
					}
				}
				opens(t, f)
				f.triggers = nil
				f.runStep()
				if busy := f.attemptCount(namespacedName("s"), ""); busy != 0 || !slices.Contains(f.triggers, triggered{"s", 0}) {
					t.Errorf("%s: busy %d, reconciled: %v", name, busy, f.triggers)
				}
				f.triggers = nil
				f.runStep()
				if slices.Contains(f.triggers, triggered{"s", 0}) {
					t.Errorf("%s: reconciled twice", name)
				}
			})
		}
	}
}
