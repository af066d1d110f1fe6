package assign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/swarm-io/swarm-operator/internal/testkit/golden"
)

// formatDecision is a readable form of a decision.
func formatDecision(decision Decision) string {
	var text strings.Builder
	for _, share := range decision.Next.Shares() {
		fmt.Fprintf(&text, "  %s (%d): %s\n", share.Worker, len(share.Jobs), strings.Join(share.Jobs, " "))
	}
	for _, job := range decision.Unassigned {
		fmt.Fprintf(&text, "  unassigned %s: %s\n", job.Job, job.Reason)
	}
	for _, move := range decision.Moves() {
		if decision.previous == nil {
			break // the shares say it all
		}
		fmt.Fprintf(&text, "  move %s: %s -> %s, because %s\n", move.Job, orNone(move.From), orNone(move.To), move.Reason)
	}
	return text.String()
}

func orNone(worker string) string {
	if worker == "" {
		return "none"
	}
	return worker
}

// A scenario is a sequence of changes to a pool.
type scenario struct {
	jobs    []Job
	workers []Worker
}

func scaleTo(n int) func(*scenario) { return func(s *scenario) { s.workers = readyWorkers(n) } }

var scenarios = []struct {
	name  string
	jobs  int
	tells []string
	steps []func(*scenario)
}{
	{"scale", 27, []string{"2 workers", "3", "1", "0", "12"}, []func(*scenario){scaleTo(2), scaleTo(3), scaleTo(1), scaleTo(0), scaleTo(12)}},
	{"jobs", 8, []string{"3 workers", "add extra at the end", "remove job-1", "reorder: job-7 first", "reweigh: job-0 becomes 5",
		"job-2 becomes dedicated"}, []func(*scenario){
		scaleTo(3),
		func(s *scenario) { s.jobs = append(s.jobs, Job{Name: "extra", Weight: 1}) },
		func(s *scenario) { s.jobs = slices.Delete(s.jobs, 1, 2) },
		func(s *scenario) { s.jobs = slices.Concat(s.jobs[6:7], s.jobs[:6], s.jobs[7:]) },
		func(s *scenario) { s.jobs[1].Weight = 5 },
		func(s *scenario) { s.jobs[2].Dedicated = true },
	}},
	{"workers", 9, []string{"3 workers", "pod of slot 1 replaced", "slot 0 away", "slot 0 leaves", "slot 0 is gone, slot 3 joins",
		"capacity 2 each"}, []func(*scenario){
		scaleTo(3),
		func(s *scenario) { s.workers[1].Name = "w-new" },
		func(s *scenario) { s.workers[0].State = NotReady },
		func(s *scenario) { s.workers[0].State = Leaving },
		func(s *scenario) { s.workers = append(s.workers[1:], Worker{Name: "w-3", Ordinal: 3}) },
		func(s *scenario) {
			for n := range s.workers {
				s.workers[n].Capacity = 2
			}
		},
	}},
}

func TestScenarios(t *testing.T) {
	for _, c := range scenarios {
		for _, strategy := range []Strategy{Sticky, Contiguous, Hashed} {
			name := fmt.Sprintf("%s-%s", c.name, strings.ToLower(string(strategy)))
			t.Run(name, func(t *testing.T) {
				state := &scenario{jobs: equalJobs(c.jobs)}
				if c.jobs == 27 {
					state.jobs = golden27(t)
				}
				var previous *Revision
				var text strings.Builder
				for n, change := range c.steps {
					state.jobs = slices.Clone(state.jobs)
					change(state)
					in := Input{Jobs: newTestList(t, state.jobs...), Workers: state.workers, Previous: previous, Strategy: strategy}
					decision := Plan(in)
					requireValid(t, in, decision)
					fmt.Fprintf(&text, "%s\n%s\n", c.tells[n], formatDecision(decision))
					previous = decision.Next
				}
				golden.Compare(t, "testdata/"+name+".txt", text.String())
			})
		}
	}
}
