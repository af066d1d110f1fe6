package assign

import (
	"cmp"
	"fmt"
	"slices"
)

// Handoff is how jobs change owners. The values are those of WorkerPool.spec.handoff.
type Handoff string

// The handoff modes.
const (
	// Exclusive grants a job when no other worker may hold it.
	Exclusive Handoff = "Exclusive"
	// Overlap grants first, and revokes when the grant is confirmed.
	Overlap Handoff = "Overlap"
	// BestEffort does both at once.
	BestEffort Handoff = "BestEffort"
)

// Phase is the kind of a step.
type Phase string

// The phases.
const (
	Revoke Phase = "Revoke" // lists become shorter
	Grant  Phase = "Grant"  // lists become longer or are reordered
	Switch Phase = "Switch" // both at once
	Wait   Phase = "Wait"   // publish nothing until a worker confirms
	Done   Phase = "Done"   // all workers have confirmed the target
)

// Waiting is a worker that has to confirm something, and the reason.
type Waiting struct {
	Worker string
	Reason string
}

// Step is what to do now.
type Step struct {
	Phase   Phase
	Publish []Share // the workers whose lists change, with their new lists, by ordinal; other workers are not touched
	Waiting []Waiting
}

// Handover returns the next step from the jobs that workers may hold towards a target. Exclusive publishes twice: it revokes the jobs
// that leave a worker, and grants the rest when all revocations are confirmed. An overdue worker holds back only its own jobs.
func Handover(target []Share, records []Record, handoff Handoff) Step {
	parties := meet(target, records)
	switch handoff {
	case Overlap:
		return overlap(parties)
	case BestEffort:
		return published(Switch, parties, func(p party) []string { return p.wanted }).or(func() Step { return confirm(parties) })
	}
	return exclusive(parties)
}

// party is a worker with its published and its wanted jobs.
type party struct {
	Record
	wanted []string
	told   bool // the published list is the wanted one: there is nothing to publish
}

// meet joins targets and records by ordinal.
func meet(target []Share, records []Record) []party {
	index := make(map[string]int, len(records))
	parties := make([]party, 0, max(len(records), len(target)))
	for _, record := range records {
		index[record.Worker] = len(parties)
		parties = append(parties, party{Record: record})
	}
	for _, share := range target {
		at, known := index[share.Worker]
		if !known {
			at = len(parties)
			parties = append(parties, party{Record: Record{Worker: share.Worker, Ordinal: share.Ordinal}})
		}
		parties[at].wanted = share.Jobs
	}
	for n := range parties {
		parties[n].told = slices.Equal(parties[n].wanted, parties[n].Current())
	}
	slices.SortFunc(parties, func(a, b party) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Worker, b.Worker))
	})
	return parties
}

func exclusive(parties []party) Step {
	return published(Revoke, parties, party.remains).or(func() Step {
		return releases(parties)
	}).or(func() Step {
		holders := holding(parties)
		return published(Grant, parties, func(p party) []string { return p.free(holders) }).or(func() Step { return confirm(parties) })
	})
}

func overlap(parties []party) Step {
	return published(Grant, parties, party.everything).or(func() Step {
		inTime := slices.DeleteFunc(slices.Clone(parties), func(p party) bool { return p.Overdue })
		if step := confirm(inTime); step.Phase == Wait {
			return step
		}
		return Step{}
	}).or(func() Step {
		return published(Revoke, parties, func(p party) []string { return p.wanted })
	}).or(func() Step { return confirm(parties) })
}

// published returns a step that publishes the lists that differ from the published ones, or an empty step.
func published(phase Phase, parties []party, list func(party) []string) Step {
	var step Step
	for _, p := range parties {
		if p.told {
			continue
		}
		if jobs := list(p); !slices.Equal(jobs, p.Current()) {
			step.Phase = phase
			step.Publish = append(step.Publish, Share{Worker: p.Worker, Ordinal: p.Ordinal, Jobs: jobs})
		}
	}
	return step
}

// or returns s, or the result of other if s is empty.
func (s Step) or(other func() Step) Step {
	if s.Phase != "" {
		return s
	}
	return other()
}

// remains returns the published jobs that are still wanted.
func (p party) remains() []string {
	wanted := setOf(p.wanted)
	return slices.DeleteFunc(slices.Clone(p.Current()), func(job string) bool { return !wanted[job] })
}

// everything returns the wanted jobs, followed by the other published ones.
func (p party) everything() []string {
	wanted := setOf(p.wanted)
	rest := slices.DeleteFunc(slices.Clone(p.Current()), func(job string) bool { return wanted[job] })
	return slices.Concat(p.wanted, rest)
}

// free returns the wanted jobs that are published already or that no other worker may hold.
func (p party) free(holders map[string]string) []string {
	published := setOf(p.Current())
	return slices.DeleteFunc(slices.Clone(p.wanted), func(job string) bool {
		holder, held := holders[job]
		return held && holder != p.Worker && !published[job]
	})
}

// several marks more than one holder, which only Overlap and BestEffort can leave behind.
const several = ""

// holding returns the possible holder of each job that has yet to be granted.
func holding(parties []party) map[string]string {
	wanted := asked(parties)
	holders := make(map[string]string, len(wanted))
	for _, p := range parties {
		for _, jobs := range [][]string{p.Current(), p.clings()} {
			for _, job := range jobs {
				if !wanted[job] {
					continue
				}
				if _, found := holders[job]; found {
					holders[job] = several
				} else {
					holders[job] = p.Worker
				}
			}
		}
	}
	return holders
}

// asked returns the jobs that are wanted and not published yet.
func asked(parties []party) map[string]bool {
	jobs := map[string]bool{}
	for _, p := range parties {
		if p.told {
			continue
		}
		published := setOf(p.Current())
		for _, job := range p.wanted {
			if !published[job] {
				jobs[job] = true
			}
		}
	}
	return jobs
}

// releases waits for the workers that may still hold revoked jobs, unless they are overdue.
func releases(parties []party) (step Step) {
	for _, p := range parties {
		if jobs := p.clings(); len(jobs) > 0 && !p.Overdue {
			step.Phase = Wait
			step.Waiting = append(step.Waiting, Waiting{p.Worker, fmt.Sprintf("it may still hold %s until it confirms version %d", some(jobs), p.newest())})
		}
	}
	return step
}

// confirm waits for all workers that have not confirmed.
func confirm(parties []party) Step {
	step := Step{Phase: Done}
	for _, p := range parties {
		if p.Settled() {
			continue
		}
		step.Phase = Wait
		reason := fmt.Sprintf("it has not confirmed version %d", p.newest())
		if jobs := p.clings(); len(jobs) > 0 {
			reason += ", and may still hold " + some(jobs)
		}
		step.Waiting = append(step.Waiting, Waiting{p.Worker, reason})
	}
	return step
}

func (r Record) newest() int64 { return r.Lists[len(r.Lists)-1].Version }

// some names one job and counts the others.
func some(jobs []string) string {
	if len(jobs) == 1 {
		return jobs[0]
	}
	return fmt.Sprintf("%s and %d more", jobs[0], len(jobs)-1)
}
