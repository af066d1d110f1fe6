package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// planResult predicts what would happen to a pool, as printed with -o json or yaml.
type planResult struct {
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

// defaultReasons explain jobs that a decision leaves where it wants them, although they are not there yet.
type defaultReasons struct{ placed, removed string }

func (r defaultReasons) reasonFor(move jobMove) string {
	if move.To == "" {
		return r.removed
	}
	return r.placed
}

// withDecision fills in what a decision changes.
func (f planResult) withDecision(decision assign.Decision, before *assign.Revision, records []assign.Record,
	defaults defaultReasons) planResult {
	current, target := before.Shares(), decision.Next.Shares()
	moveReasons := map[string]string{}
	for _, move := range decision.Moves() {
		moveReasons[move.Job] = move.Reason
	}
	f.compareShares(current, target)
	for n, move := range f.Moves {
		f.Moves[n].Reason = cmp.Or(moveReasons[move.Job], defaults.reasonFor(move))
	}
	f.Workers, f.Unassigned, f.Steps = workerChanges(current, target), []unassigned{}, []step{}
	for _, job := range decision.Unassigned {
		f.Unassigned = append(f.Unassigned, unassigned(job))
	}
	for _, handover := range assign.SimulateHandover(target, records, assign.Handoff(f.Handoff)) {
		names := namesOf(handover.Publish, func(s assign.Share) string { return s.Worker })
		f.Steps = append(f.Steps, step{string(handover.Phase), names})
	}
	f.Configs = len(f.Steps)
	return f
}

// location is where a job is.
type location struct {
	worker  string
	ordinal int
}

func locations(shares []assign.Share) map[string]location {
	result := map[string]location{}
	for _, share := range shares {
		for _, job := range share.Jobs {
			result[job] = location{share.Worker, share.Ordinal}
		}
	}
	return result
}

// compareShares finds the jobs that move, in list order, then those that are no longer in the list. It counts the others.
func (f *planResult) compareShares(before, after []assign.Share) {
	current, target := locations(before), locations(after)
	f.Moves = []jobMove{}
	for _, job := range f.jobs {
		from, wasPlaced := current[job.Name]
		to, isPlaced := target[job.Name]
		delete(current, job.Name)
		switch {
		case wasPlaced != isPlaced || from.ordinal != to.ordinal:
			f.addMove(job.Name, from, to)
		case isPlaced:
			f.Staying++
		}
	}
	for _, share := range before {
		for _, job := range share.Jobs {
			if from, remaining := current[job]; remaining {
				f.Ending++
				f.addMove(job, from, location{})
			}
		}
	}
}

func (f *planResult) addMove(job string, from, to location) {
	switch {
	case from.worker == "":
		f.Starting++
	case to.worker != "":
		f.Moving++
	}
	f.Moves = append(f.Moves, jobMove{Job: job, From: from.worker, To: to.worker})
}

// workerChanges returns the change of each worker, by ordinal.
func workerChanges(before, after []assign.Share) []workerChange {
	current, target := sharesByOrdinal(before), sharesByOrdinal(after)
	result := []workerChange{}
	for _, ordinal := range slices.Sorted(maps.Keys(unionKeys(current, target))) {
		from, to := current[ordinal], target[ordinal]
		change := workerChange{
			Worker: cmp.Or(to.Worker, from.Worker), Ordinal: ordinal, Before: len(from.Jobs), After: len(to.Jobs),
			Gains: difference(to.Jobs, from.Jobs), Loses: difference(from.Jobs, to.Jobs),
		}
		if change.Worker != from.Worker {
			change.Replaces = from.Worker
		}
		result = append(result, change)
	}
	return result
}

func unionKeys(both ...map[int]assign.Share) map[int]bool {
	keys := map[int]bool{}
	for _, shares := range both {
		for key := range shares {
			keys[key] = true
		}
	}
	return keys
}

func sharesByOrdinal(shares []assign.Share) map[int]assign.Share {
	result := make(map[int]assign.Share, len(shares))
	for _, share := range shares {
		result[share.Ordinal] = share
	}
	return result
}

// difference returns the jobs of a list that are not in another.
func difference(jobs, others []string) []string {
	excluded := make(map[string]bool, len(others))
	for _, job := range others {
		excluded[job] = true
	}
	return slices.DeleteFunc(append([]string{}, jobs...), func(job string) bool { return excluded[job] })
}

// summary returns the result in one line.
func (f planResult) summary() string {
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

func (f planResult) size() string {
	if f.SizeBefore == f.SizeAfter {
		return fmt.Sprintf("%s over %s", count(f.Jobs, "job"), count(f.SizeAfter, "worker"))
	}
	return fmt.Sprintf("%s over %d -> %s", count(f.Jobs, "job"), f.SizeBefore, count(f.SizeAfter, "worker"))
}

// isEmpty reports whether nothing would change.
func (f planResult) isEmpty() bool { return len(f.Moves) == 0 && f.Configs == 0 }
