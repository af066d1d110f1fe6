package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// forecast is what would happen to a pool, in the form in which programs read it.
type forecast struct {
	Namespace  string         `json:"namespace"`
	Pool       string         `json:"pool"`
	Revision   int64          `json:"revision,omitempty"` // that is gone back to
	Strategy   string         `json:"strategy"`
	Handoff    string         `json:"handoff"`
	Jobs       int            `json:"jobs"`
	SizeBefore int            `json:"sizeBefore"` // workers that have a list
	SizeAfter  int            `json:"sizeAfter"`
	Moving     int            `json:"moving"`
	Staying    int            `json:"staying"`
	Starting   int            `json:"starting"` // jobs that no worker has
	Ending     int            `json:"ending"`   // jobs that no worker will have
	Configs    int            `json:"configs"`  // how often the config is published until it is done
	Workers    []workerChange `json:"workers"`
	Moves      []jobMove      `json:"moves"`
	Unassigned []unassigned   `json:"unassigned"`
	Steps      []step         `json:"steps"`
	Notes      []string       `json:"notes,omitempty"`
	jobs       []assign.Job
}

// workerChange is what becomes of a worker.
type workerChange struct {
	Worker  string   `json:"worker"`
	Ordinal int      `json:"ordinal"`
	Before  int      `json:"before"`
	After   int      `json:"after"`
	Gains   []string `json:"gains"`
	Loses   []string `json:"loses"`
}

// jobMove is a job that changes hands; "" is nobody.
type jobMove struct {
	Job    string `json:"job"`
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
}

type unassigned struct {
	Job    string `json:"job"`
	Reason string `json:"reason"`
}

// step is one publishing of the config.
type step struct {
	Phase   string   `json:"phase"`
	Workers []string `json:"workers"` // whose lists change
}

// follow fills in what a decision makes of what there is before. Otherwise is the reason of moves that the decision has none for.
func (f forecast) follow(decision assign.Decision, before *assign.Revision, records []assign.Record, otherwise string) forecast {
	was, will := before.Shares(), decision.Next.Shares()
	why := map[string]string{}
	for _, move := range decision.Moves() {
		why[move.Job] = move.Reason
	}
	f.Moves, f.Unassigned, f.Steps = []jobMove{}, []unassigned{}, []step{}
	for _, move := range f.moves(was, will) {
		move.Reason = cmp.Or(why[move.Job], otherwise)
		f.Moves = append(f.Moves, move)
	}
	f.Workers = changes(was, will)
	for _, job := range decision.Unassigned {
		f.Unassigned = append(f.Unassigned, unassigned(job))
	}
	for _, published := range assign.Rehearse(will, records, assign.Handoff(f.Handoff)) {
		names := namesOf(published.Publish, func(s assign.Share) string { return s.Worker })
		f.Steps = append(f.Steps, step{string(published.Phase), names})
	}
	f.Configs = len(f.Steps)
	f.tally()
	return f
}

// place is where a job is.
type place struct {
	worker  string
	ordinal int
}

func places(shares []assign.Share) map[string]place {
	all := map[string]place{}
	for _, share := range shares {
		for _, job := range share.Jobs {
			all[job] = place{share.Worker, share.Ordinal}
		}
	}
	return all
}

// moves are the jobs that change hands, in list order, and then those that are no longer in the list.
func (f forecast) moves(before, after []assign.Share) []jobMove {
	var moves []jobMove
	was, will := places(before), places(after)
	note := func(job string) {
		from, had := was[job]
		to, has := will[job]
		if had != has || from.ordinal != to.ordinal {
			moves = append(moves, jobMove{Job: job, From: from.worker, To: to.worker})
		}
		delete(was, job)
	}
	for _, job := range f.jobs {
		note(job.Name)
	}
	for _, share := range before {
		for _, job := range share.Jobs {
			if _, left := was[job]; left {
				note(job)
			}
		}
	}
	return moves
}

// tally counts what happens to jobs.
func (f *forecast) tally() {
	for _, move := range f.Moves {
		switch {
		case move.From == "":
			f.Starting++
		case move.To == "":
			f.Ending++
		default:
			f.Moving++
		}
	}
	f.Staying = f.Jobs - f.Moving - f.Starting
	for _, job := range f.Unassigned {
		if slices.ContainsFunc(f.Moves, func(m jobMove) bool { return m.Job == job.Job }) {
			continue // it has been counted as ending
		}
		f.Staying--
	}
	f.Staying -= f.evicted()
}

// evicted counts the jobs that lose their worker and are still in the list.
func (f *forecast) evicted() (number int) {
	for _, job := range f.Unassigned {
		if slices.ContainsFunc(f.Moves, func(m jobMove) bool { return m.Job == job.Job && m.To == "" }) {
			number++
		}
	}
	return number
}

// changes are what becomes of each worker, by ordinal.
func changes(before, after []assign.Share) []workerChange {
	was, will := byOrdinal(before), byOrdinal(after)
	all := []workerChange{}
	for _, share := range slices.Concat(after, before) {
		from, to := was[share.Ordinal], will[share.Ordinal]
		if slices.ContainsFunc(all, func(c workerChange) bool { return c.Ordinal == share.Ordinal }) {
			continue
		}
		all = append(all, workerChange{
			Worker: share.Worker, Ordinal: share.Ordinal, Before: len(from), After: len(to), Gains: without(to, from), Loses: without(from, to),
		})
	}
	slices.SortFunc(all, func(a, b workerChange) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return all
}

func byOrdinal(shares []assign.Share) map[int][]string {
	all := make(map[int][]string, len(shares))
	for _, share := range shares {
		all[share.Ordinal] = append(all[share.Ordinal], share.Jobs...)
	}
	return all
}

// without are the jobs of a list that are not in another.
func without(jobs, others []string) []string {
	known := make(map[string]bool, len(others))
	for _, job := range others {
		known[job] = true
	}
	return slices.DeleteFunc(append([]string{}, jobs...), func(job string) bool { return known[job] })
}

// summary is the forecast in one line.
func (f forecast) summary() string {
	size := count(f.SizeAfter, "worker")
	if f.SizeBefore != f.SizeAfter {
		size = fmt.Sprintf("%d -> %s", f.SizeBefore, size)
	}
	parts := []string{fmt.Sprintf("%d move", f.Moving), fmt.Sprintf("%d stay", f.Staying)}
	for _, part := range []struct {
		number int
		what   string
	}{{f.Starting, "start"}, {f.Ending, "end"}, {len(f.Unassigned), "unassigned"}} {
		if part.number > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.number, part.what))
		}
	}
	return fmt.Sprintf("%s over %s: %s; %s", count(f.Jobs, "job"), size, strings.Join(parts, ", "), count(f.Configs, "published config"))
}
