package assign

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// compare compares text with a golden file.
func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs, see it with -update:\n%s", file, got)
	}
}

// listing is a readable form of a decision.
func listing(decision Decision) string {
	var text strings.Builder
	for _, share := range decision.Next.Shares() {
		fmt.Fprintf(&text, "  %s (%d): %s\n", share.Worker, len(share.Jobs), strings.Join(share.Jobs, " "))
	}
	for _, job := range decision.Unassigned {
		fmt.Fprintf(&text, "  unassigned %s: %s\n", job.Job, job.Reason)
	}
	for _, move := range decision.Moves() {
		if decision.before == nil {
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

// A story is a sequence of changes to a pool.
type story struct {
	jobs    []Job
	workers []Worker
}

func size(n int) func(*story) { return func(s *story) { s.workers = crew(n) } }

var stories = []struct {
	name  string
	jobs  int
	tells []string
	steps []func(*story)
}{
	{"scale", 27, []string{"2 workers", "3", "1", "0", "12"}, []func(*story){size(2), size(3), size(1), size(0), size(12)}},
	{"jobs", 8, []string{"3 workers", "add extra at the end", "remove job-1", "reorder: job-7 first", "reweigh: job-0 becomes 5", "job-2 becomes dedicated"}, []func(*story){
		size(3),
		func(s *story) { s.jobs = append(s.jobs, Job{Name: "extra", Weight: 1}) },
		func(s *story) { s.jobs = slices.Delete(s.jobs, 1, 2) },
		func(s *story) { s.jobs = slices.Concat(s.jobs[6:7], s.jobs[:6], s.jobs[7:]) },
		func(s *story) { s.jobs[1].Weight = 5 },
		func(s *story) { s.jobs[2].Dedicated = true },
	}},
	{"workers", 9, []string{"3 workers", "pod of slot 1 replaced", "slot 0 away", "slot 0 leaves", "slot 0 is gone, slot 3 joins", "capacity 2 each"}, []func(*story){
		size(3),
		func(s *story) { s.workers[1].Name = "w-new" },
		func(s *story) { s.workers[0].State = Away },
		func(s *story) { s.workers[0].State = Leaving },
		func(s *story) { s.workers = append(s.workers[1:], Worker{Name: "w-3", Ordinal: 3}) },
		func(s *story) {
			for n := range s.workers {
				s.workers[n].Capacity = 2
			}
		},
	}},
}

func TestStories(t *testing.T) {
	for _, tale := range stories {
		for _, strategy := range []Strategy{Sticky, Contiguous, Hashed} {
			name := fmt.Sprintf("%s-%s", tale.name, strings.ToLower(string(strategy)))
			t.Run(name, func(t *testing.T) {
				now := &story{jobs: equal(tale.jobs)}
				if tale.jobs == 27 {
					now.jobs = golden27(t)
				}
				var previous *Revision
				var text strings.Builder
				for n, happens := range tale.steps {
					now.jobs = slices.Clone(now.jobs)
					happens(now)
					in := Input{Jobs: listOf(t, now.jobs...), Workers: now.workers, Previous: previous, Strategy: strategy}
					decision := Plan(in)
					sound(t, in, decision)
					fmt.Fprintf(&text, "%s\n%s\n", tale.tells[n], listing(decision))
					previous = decision.Next
				}
				compare(t, "testdata/"+name+".txt", text.String())
			})
		}
	}
}
