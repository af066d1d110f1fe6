package cli

import "fmt"

// defaultRows is how much of a list is shown unless everything is requested.
const defaultRows = 10

// printPlan prints a plan.
func (s *session) printPlan(f planResult, output *outputFlag) error {
	if done, err := output.writeData(s.Out, f); done {
		return err
	}
	out, limit := s.newPrinter(), defaultRows
	if output.isWide() {
		limit = f.maxRows()
	}
	if f.isEmpty() {
		out.line("Nothing would move: %s", f.size())
	} else {
		out.line("%s", f.summary())
	}
	for _, change := range f.Workers {
		if output.isWide() || change.hasChanges() {
			out.change(change, limit)
		}
	}
	out.moves(f.Moves, limit)
	out.unassigned(f.Unassigned, limit)
	for _, note := range f.Notes {
		out.line("\n%s", out.colorize(cell{"Note: " + note, yellow}))
	}
	return nil
}

// maxRows is at least the length of every list of the plan.
func (f planResult) maxRows() int { return len(f.Moves) + len(f.Unassigned) }

// hasChanges reports whether the worker changes.
func (c workerChange) hasChanges() bool { return len(c.Gains)+len(c.Loses) > 0 || c.Replaces != "" }

// change prints the change of a worker.
func (p printer) change(change workerChange, limit int) {
	heading := fmt.Sprintf("%s   %d -> %d", visible(change.Worker), change.Before, change.After)
	if change.Replaces != "" {
		heading += ", in place of " + visible(change.Replaces)
	}
	p.line("\n%s", heading)
	p.jobList("- ", change.Loses, red, limit)
	p.jobList("+ ", change.Gains, green, limit)
}

func (p printer) jobList(sign string, jobs []string, col color, limit int) {
	for _, job := range jobs[:min(limit, len(jobs))] {
		p.line("  %s", p.colorize(cell{sign + visible(job), col}))
	}
	if omitted := len(jobs) - limit; omitted > 0 {
		p.line("  %s", p.colorize(cell{fmt.Sprintf("%sand %d more", sign, omitted), col}))
	}
}

func (p printer) moves(moves []jobMove, limit int) {
	var rows [][]cell
	for _, move := range moves[:min(limit, len(moves))] {
		rows = append(rows, []cell{cellOf(move.Job), {move.From, red}, {move.To, green}, cellOf(move.Reason)})
	}
	p.section([]string{"JOB", "FROM", "TO", "BECAUSE"}, rows, len(moves)-limit)
}

func (p printer) unassigned(jobs []unassigned, limit int) {
	var rows [][]cell
	for _, job := range jobs[:min(limit, len(jobs))] {
		rows = append(rows, []cell{{job.Job, yellow}, cellOf(job.Reason)})
	}
	p.section([]string{"UNASSIGNED", "BECAUSE"}, rows, len(jobs)-limit)
}

// section prints a table, and how many rows were omitted.
func (p printer) section(heads []string, rows [][]cell, omitted int) {
	if len(rows) == 0 {
		return
	}
	p.line("")
	p.table(heads, rows)
	if omitted > 0 {
		p.line("and %d more: -o wide shows all", omitted)
	}
}
