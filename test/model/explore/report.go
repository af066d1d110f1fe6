package explore

import (
	"fmt"
	"io"
	"iter"
	"strings"
)

// A Report is the result of a search in a scenario of a model.
type Report struct {
	Model, Scenario string
	Result          Result
}

func (r Report) String() string {
	return fmt.Sprintf("model=%s scenario=%q states=%d depth=%d complete=%t violations=%d",
		r.Model, r.Scenario, r.Result.States, r.Result.Depth, r.Result.Complete, r.Result.Violations())
}

// Story returns the violation and the steps that led to it, one per line.
func (r Result) Story() string {
	if r.Violation == "" {
		return ""
	}
	var story strings.Builder
	fmt.Fprintf(&story, "  %s:\n", r.Violation)
	for n, line := range r.Trace {
		fmt.Fprintf(&story, "  %3d. %s\n", n+1, line)
	}
	return story.String()
}

// Print writes a line for each report as it arrives, with the trace of a violation, then one for the model as a whole. It
// returns the number of violations.
func Print(out io.Writer, reports iter.Seq[Report]) int {
	var model string
	states, depth, violations := 0, 0, 0
	for r := range reports {
		fmt.Fprintf(out, "%s\n%s", r, r.Result.Story())
		model = r.Model
		states += r.Result.States
		depth = max(depth, r.Result.Depth)
		violations += r.Result.Violations()
	}
	if states > 0 {
		fmt.Fprintf(out, "model=%s states=%d depth=%d violations=%d\n", model, states, depth, violations)
	}
	return violations
}
