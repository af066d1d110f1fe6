package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// A line is one measure beside its target.
type line struct {
	Measure string  `json:"measure"`
	Ours    float64 `json:"ours"`
	Target  float64 `json:"target"` // at most this
	Unit    string  `json:"unit"`
	Counted bool    `json:"counted"` // a count, which may fail the benchmark
	Met     bool    `json:"met"`
}

// A report is all measures so far.
type report struct {
	lines []line
}

// count adds a count: the same on every machine.
func (r *report) count(measure string, ours, most float64, unit string) {
	r.add(line{Measure: measure, Ours: ours, Target: most, Unit: unit, Counted: true, Met: ours <= most})
}

// time adds a time or a size: it depends on the machine, and is only shown.
func (r *report) time(measure string, ours, most float64, unit string) {
	r.add(line{Measure: measure, Ours: ours, Target: most, Unit: unit, Met: ours <= most})
}

func (r *report) add(added line) {
	r.lines = append(r.lines, added)
	verdict := "met"
	if !added.Met {
		verdict = "NOT MET"
	}
	fmt.Printf("%-72s %10.2f %-6s target <= %-6g %s\n", added.Measure, added.Ours, added.Unit, added.Target, verdict)
}

// close writes the results, and fails when a count missed its target.
func (r *report) close(file string) error {
	text, err := json.MarshalIndent(r.lines, "", "  ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	for _, measured := range r.lines {
		if measured.Counted && !measured.Met {
			return fmt.Errorf("%s: %g, and %g is the most", measured.Measure, measured.Ours, measured.Target)
		}
	}
	return nil
}
