package cli

import "fmt"

// few is how much of a list is shown unless everything is requested.
const few = 10

// foretell prints a forecast.
func (s *session) foretell(f forecast, form *form) error {
	if done, err := form.data(s.Out, f); done {
		return err
	}
	p, most := s.page(), few
	if form.wide() {
		most = f.everything()
	}
	if f.still() {
		p.line("Nothing would move: %s", f.size())
	} else {
		p.line("%s", f.summary())
	}
	for _, change := range f.Workers {
		if form.wide() || change.matters() {
			p.change(change, most)
		}
	}
	p.moves(f.Moves, most)
	p.unassigned(f.Unassigned, most)
	for _, note := range f.Notes {
		p.line("\n%s", p.painted(cell{"Note: " + note, doubt}))
	}
	return nil
}

// everything is at least the length of every list of the forecast.
func (f forecast) everything() int { return len(f.Moves) + len(f.Unassigned) }

// matters reports whether the worker changes.
func (c workerChange) matters() bool { return len(c.Gains)+len(c.Loses) > 0 || c.Replaces != "" }

// change prints the change of a worker.
func (p page) change(change workerChange, most int) {
	head := fmt.Sprintf("%s   %d -> %d", visible(change.Worker), change.Before, change.After)
	if change.Replaces != "" {
		head += ", in place of " + visible(change.Replaces)
	}
	p.line("\n%s", head)
	p.listed("- ", change.Loses, bad, most)
	p.listed("+ ", change.Gains, good, most)
}

func (p page) listed(sign string, jobs []string, tone tone, most int) {
	for _, job := range jobs[:min(most, len(jobs))] {
		p.line("  %s", p.painted(cell{sign + visible(job), tone}))
	}
	if rest := len(jobs) - most; rest > 0 {
		p.line("  %s", p.painted(cell{fmt.Sprintf("%sand %d more", sign, rest), tone}))
	}
}

func (p page) moves(moves []jobMove, most int) {
	var rows [][]cell
	for _, move := range moves[:min(most, len(moves))] {
		rows = append(rows, []cell{in(move.Job), {move.From, bad}, {move.To, good}, in(move.Reason)})
	}
	p.section([]string{"JOB", "FROM", "TO", "BECAUSE"}, rows, len(moves)-most)
}

func (p page) unassigned(jobs []unassigned, most int) {
	var rows [][]cell
	for _, job := range jobs[:min(most, len(jobs))] {
		rows = append(rows, []cell{{job.Job, doubt}, in(job.Reason)})
	}
	p.section([]string{"UNASSIGNED", "BECAUSE"}, rows, len(jobs)-most)
}

// section prints a table of its own, and how many rows were omitted.
func (p page) section(heads []string, rows [][]cell, rest int) {
	if len(rows) == 0 {
		return
	}
	p.line("")
	p.table(heads, rows)
	if rest > 0 {
		p.line("and %d more: -o wide shows all", rest)
	}
}
