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

// PendingWorker is a worker that has to confirm something, and the reason.
type PendingWorker struct {
	Worker string
	Reason string
}

// Step is what to do now.
type Step struct {
	Phase   Phase
	Publish []Share // the workers whose lists change, with their new lists, by ordinal; other workers are not touched
	Pending []PendingWorker
}

// Handover returns the next step from the jobs that workers may hold towards a target. Exclusive publishes twice: it revokes the jobs
// that leave a worker, and grants the rest when all revocations are confirmed. An overdue worker holds back only its own jobs.
func Handover(target []Share, records []Record, handoff Handoff) Step {
	transitions := buildTransitions(target, records)
	switch handoff {
	case Overlap:
		return overlapStep(transitions)
	case BestEffort:
		return publishStep(Switch, transitions, func(t transition) []string { return t.target }).orElse(func() Step {
			return awaitAcknowledgements(transitions)
		})
	}
	return exclusiveStep(transitions)
}

// transition is a worker with its published and its wanted jobs.
type transition struct {
	Record
	target   []string
	upToDate bool // the published list is the wanted one: there is nothing to publish
}

// buildTransitions joins targets and records by ordinal.
func buildTransitions(target []Share, records []Record) []transition {
	index := make(map[string]int, len(records))
	transitions := make([]transition, 0, max(len(records), len(target)))
	for _, record := range records {
		index[record.Worker] = len(transitions)
		transitions = append(transitions, transition{Record: record})
	}
	for _, share := range target {
		at, exists := index[share.Worker]
		if !exists {
			at = len(transitions)
			transitions = append(transitions, transition{Record: Record{Worker: share.Worker, Ordinal: share.Ordinal}})
		}
		transitions[at].target = share.Jobs
	}
	for n := range transitions {
		transitions[n].upToDate = slices.Equal(transitions[n].target, transitions[n].Current())
	}
	slices.SortFunc(transitions, func(a, b transition) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Worker, b.Worker))
	})
	return transitions
}

func exclusiveStep(transitions []transition) Step {
	return publishStep(Revoke, transitions, transition.retainedJobs).orElse(func() Step {
		return awaitReleases(transitions)
	}).orElse(func() Step {
		holders := possibleHolders(transitions)
		return publishStep(Grant, transitions, func(t transition) []string { return t.grantableJobs(holders) }).orElse(func() Step {
			return awaitAcknowledgements(transitions)
		})
	})
}

func overlapStep(transitions []transition) Step {
	return publishStep(Grant, transitions, transition.combinedJobs).orElse(func() Step {
		onTime := slices.DeleteFunc(slices.Clone(transitions), func(t transition) bool { return t.Overdue })
		if step := awaitAcknowledgements(onTime); step.Phase == Wait {
			return step
		}
		return Step{}
	}).orElse(func() Step {
		return publishStep(Revoke, transitions, func(t transition) []string { return t.target })
	}).orElse(func() Step { return awaitAcknowledgements(transitions) })
}

// publishStep returns a step that publishes the lists that differ from the published ones, or an empty step.
func publishStep(phase Phase, transitions []transition, list func(transition) []string) Step {
	var step Step
	for _, t := range transitions {
		if t.upToDate {
			continue
		}
		if jobs := list(t); !slices.Equal(jobs, t.Current()) {
			step.Phase = phase
			step.Publish = append(step.Publish, Share{Worker: t.Worker, Ordinal: t.Ordinal, Jobs: jobs})
		}
	}
	return step
}

// orElse returns s, or the result of other if s is empty.
func (s Step) orElse(other func() Step) Step {
	if s.Phase != "" {
		return s
	}
	return other()
}

// retainedJobs returns the published jobs that are still wanted.
func (t transition) retainedJobs() []string {
	wanted := setOf(t.target)
	return slices.DeleteFunc(slices.Clone(t.Current()), func(job string) bool { return !wanted[job] })
}

// combinedJobs returns the wanted jobs, followed by the other published ones.
func (t transition) combinedJobs() []string {
	wanted := setOf(t.target)
	released := slices.DeleteFunc(slices.Clone(t.Current()), func(job string) bool { return wanted[job] })
	return slices.Concat(t.target, released)
}

// grantableJobs returns the wanted jobs that are published already or that no other worker may hold.
func (t transition) grantableJobs(holders map[string]string) []string {
	published := setOf(t.Current())
	return slices.DeleteFunc(slices.Clone(t.target), func(job string) bool {
		holder, isHeld := holders[job]
		return isHeld && holder != t.Worker && !published[job]
	})
}

// multipleHolders marks more than one holder, which only Overlap and BestEffort can leave behind.
const multipleHolders = ""

// possibleHolders returns the possible holder of each job that has yet to be granted.
func possibleHolders(transitions []transition) map[string]string {
	wanted := jobsToGrant(transitions)
	holders := make(map[string]string, len(wanted))
	for _, t := range transitions {
		for _, jobs := range [][]string{t.Current(), t.unreleasedJobs()} {
			for _, job := range jobs {
				if !wanted[job] {
					continue
				}
				if _, exists := holders[job]; exists {
					holders[job] = multipleHolders
				} else {
					holders[job] = t.Worker
				}
			}
		}
	}
	return holders
}

// jobsToGrant returns the jobs that are wanted and not published yet.
func jobsToGrant(transitions []transition) map[string]bool {
	jobs := map[string]bool{}
	for _, t := range transitions {
		if t.upToDate {
			continue
		}
		published := setOf(t.Current())
		for _, job := range t.target {
			if !published[job] {
				jobs[job] = true
			}
		}
	}
	return jobs
}

// awaitReleases waits for the workers that may still hold revoked jobs, unless they are overdue.
func awaitReleases(transitions []transition) (step Step) {
	for _, t := range transitions {
		if jobs := t.unreleasedJobs(); len(jobs) > 0 && !t.Overdue {
			step.Phase = Wait
			step.Pending = append(step.Pending, PendingWorker{t.Worker,
				fmt.Sprintf("it may still hold %s until it confirms version %d", summarizeJobs(jobs), t.newestVersion())})
		}
	}
	return step
}

// awaitAcknowledgements waits for all workers that have not confirmed.
func awaitAcknowledgements(transitions []transition) Step {
	step := Step{Phase: Done}
	for _, t := range transitions {
		if t.IsAcknowledged() {
			continue
		}
		step.Phase = Wait
		reason := fmt.Sprintf("it has not confirmed version %d", t.newestVersion())
		if jobs := t.unreleasedJobs(); len(jobs) > 0 {
			reason += ", and may still hold " + summarizeJobs(jobs)
		}
		step.Pending = append(step.Pending, PendingWorker{t.Worker, reason})
	}
	return step
}

func (r Record) newestVersion() int64 { return r.Lists[len(r.Lists)-1].Version }

// summarizeJobs names one job and counts the others.
func summarizeJobs(jobs []string) string {
	if len(jobs) == 1 {
		return jobs[0]
	}
	return fmt.Sprintf("%s and %d more", jobs[0], len(jobs)-1)
}
