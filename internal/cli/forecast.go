package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// forecast predicts what would happen to a pool, as printed with -o json or yaml.
type forecast struct {
	Namespace  string         `json:"namespace"`
	Pool       string         `json:"pool"`
	Revision   int64          `json:"revision,omitempty"` // to return to
	Strategy   string         `json:"strategy"`
	Handoff    string         `json:"handoff"`
	Jobs       int            `json:"jobs"`
	SizeBefore int            `json:"sizeBefore"` // workers that have a list
	SizeAfter  int            `json:"sizeAfter"`
	Moving     int            `json:"moving"`
	Staying    int            `json:"staying"`
	Starting   int            `json:"starting"` // jobs that no worker has
	Ending     int            `json:"ending"`   // jobs that are no longer in the list
	Configs    int            `json:"configs"`  // how often the config is published until it is done
	Workers    []workerChange `json:"workers"`
	Moves      []jobMove      `json:"moves"`
	Unassigned []unassigned   `json:"unassigned"`
	Steps      []step         `json:"steps"`
	Notes      []string       `json:"notes,omitempty"`
	jobs       []assign.Job
}

// workerChange is the change of one worker.
type workerChange struct {
	Worker   string   `json:"worker"`
	Ordinal  int      `json:"ordinal"`
	Replaces string   `json:"replaces,omitempty"` // the worker whose place and jobs it takes
	Before   int      `json:"before"`
	After    int      `json:"after"`
	Gains    []string `json:"gains"`
	Loses    []string `json:"loses"`
}

// jobMove is a job that moves to another worker; "" is none.
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

// step is one publication of the config.
type step struct {
	Phase   string   `json:"phase"`
	Workers []string `json:"workers"` // whose lists change
}

// reasons explain jobs that a decision leaves where it wants them, although they are not there yet.
type reasons struct{ there, nowhere string }

func (r reasons) of(move jobMove) string {
	if move.To == "" {
		return r.nowhere
	}
	return r.there
}

// follow fills in what a decision changes.
func (f forecast) follow(decision assign.Decision, before *assign.Revision, records []assign.Record, otherwise reasons) forecast {
	was, will := before.Shares(), decision.Next.Shares()
	why := map[string]string{}
	for _, move := range decision.Moves() {
		why[move.Job] = move.Reason
	}
	f.compare(was, will)
	for n, move := range f.Moves {
		f.Moves[n].Reason = cmp.Or(why[move.Job], otherwise.of(move))
	}
	f.Workers, f.Unassigned, f.Steps = changes(was, will), []unassigned{}, []step{}
	for _, job := range decision.Unassigned {
		f.Unassigned = append(f.Unassigned, unassigned(job))
	}
	for _, published := range assign.Rehearse(will, records, assign.Handoff(f.Handoff)) {
		names := namesOf(published.Publish, func(s assign.Share) string { return s.Worker })
		f.Steps = append(f.Steps, step{string(published.Phase), names})
	}
	f.Configs = len(f.Steps)
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

// compare finds the jobs that move, in list order, then those that are no longer in the list. It counts the others.
func (f *forecast) compare(before, after []assign.Share) {
	was, will := places(before), places(after)
	f.Moves = []jobMove{}
	for _, job := range f.jobs {
		from, had := was[job.Name]
		to, has := will[job.Name]
		delete(was, job.Name)
		switch {
		case had != has || from.ordinal != to.ordinal:
			f.move(job.Name, from, to)
		case has:
			f.Staying++
		}
	}
	for _, share := range before {
		for _, job := range share.Jobs {
			if from, left := was[job]; left {
				f.Ending++
				f.move(job, from, place{})
			}
		}
	}
}

func (f *forecast) move(job string, from, to place) {
	switch {
	case from.worker == "":
		f.Starting++
	case to.worker != "":
		f.Moving++
	}
	f.Moves = append(f.Moves, jobMove{Job: job, From: from.worker, To: to.worker})
}

// changes returns the change of each worker, by ordinal.
func changes(before, after []assign.Share) []workerChange {
	was, will := byOrdinal(before), byOrdinal(after)
	all := []workerChange{}
	for _, ordinal := range slices.Sorted(maps.Keys(joined(was, will))) {
		from, to := was[ordinal], will[ordinal]
		change := workerChange{
			Worker: cmp.Or(to.Worker, from.Worker), Ordinal: ordinal, Before: len(from.Jobs), After: len(to.Jobs),
			Gains: without(to.Jobs, from.Jobs), Loses: without(from.Jobs, to.Jobs),
		}
		if change.Worker != from.Worker {
			change.Replaces = from.Worker
		}
		all = append(all, change)
	}
	return all
}

func joined(both ...map[int]assign.Share) map[int]bool {
	keys := map[int]bool{}
	for _, each := range both {
		for key := range each {
			keys[key] = true
		}
	}
	return keys
}

func byOrdinal(shares []assign.Share) map[int]assign.Share {
	all := make(map[int]assign.Share, len(shares))
	for _, share := range shares {
		all[share.Ordinal] = share
	}
	return all
}

// without returns the jobs of a list that are not in another.
func without(jobs, others []string) []string {
	known := make(map[string]bool, len(others))
	for _, job := range others {
		known[job] = true
	}
	return slices.DeleteFunc(append([]string{}, jobs...), func(job string) bool { return known[job] })
}

// summary returns the forecast in one line.
func (f forecast) summary() string {
	parts := []string{fmt.Sprintf("%d move", f.Moving), fmt.Sprintf("%d stay", f.Staying)}
	for _, part := range []struct {
		number int
		what   string
	}{{f.Starting, "start"}, {f.Ending, "end"}, {len(f.Unassigned), "unassigned"}} {
		if part.number > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.number, part.what))
		}
	}
	return fmt.Sprintf("%s: %s; %s", f.size(), strings.Join(parts, ", "), count(f.Configs, "published config"))
}

func (f forecast) size() string {
	if f.SizeBefore == f.SizeAfter {
		return fmt.Sprintf("%s over %s", count(f.Jobs, "job"), count(f.SizeAfter, "worker"))
	}
	return fmt.Sprintf("%s over %d -> %s", count(f.Jobs, "job"), f.SizeBefore, count(f.SizeAfter, "worker"))
}

// still reports whether nothing would change.
func (f forecast) still() bool { return len(f.Moves) == 0 && f.Configs == 0 }
