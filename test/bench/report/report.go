// Package report prints measures beside their targets and keeps them in a file that several programs share.
//
// Each program has a suite, and replaces only the lines of its own. Counts that miss their target are an error in the end; times and
// sizes never are, because machines differ.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Line is one measure beside its target.
type Line struct {
	Suite   string  `json:"suite"`
	Measure string  `json:"measure"`
	Ours    float64 `json:"ours"`
	Peer    *Peer   `json:"peer,omitempty"`
	Target  float64 `json:"target"`            // at most this
	AtLeast bool    `json:"atLeast,omitempty"` // at least this
	Unit    string  `json:"unit"`
	Counted bool    `json:"counted"` // a count, which may fail the benchmark
	Met     bool    `json:"met"`
}

// Peer is what somebody else needs for the same, in the same run.
type Peer struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Report is all measures of a suite so far.
type Report struct {
	suite string
	lines []Line
}

// New is an empty report.
func New(suite string) *Report { return &Report{suite: suite} }

// Count adds a count: the same on every machine.
func (r *Report) Count(measure string, ours, most float64, unit string) {
	r.Add(Line{Measure: measure, Ours: ours, Target: most, Unit: unit, Counted: true})
}

// Time adds a time or a size: it depends on the machine, and is only shown.
func (r *Report) Time(measure string, ours, most float64, unit string) {
	r.Add(Line{Measure: measure, Ours: ours, Target: most, Unit: unit})
}

// Add adds a line and prints it.
func (r *Report) Add(line Line) {
	line.Suite = r.suite
	line.Met = line.Ours <= line.Target
	if line.AtLeast {
		line.Met = line.Ours >= line.Target
	}
	r.lines = append(r.lines, line)
	fmt.Println(line)
}

// String is the line as people read it.
func (l Line) String() string {
	sign, verdict, peer := "<=", "met", ""
	if l.AtLeast {
		sign = ">="
	}
	if !l.Met {
		verdict = "NOT MET"
	}
	if l.Peer != nil {
		peer = fmt.Sprintf("  (%s: %.2f)", l.Peer.Name, l.Peer.Value)
	}
	return fmt.Sprintf("%-72s %10.2f %-6s target %s %-6g %s%s", l.Measure, l.Ours, l.Unit, sign, l.Target, verdict, peer)
}

// Close puts the results into the file, and fails when a count missed its target.
func (r *Report) Close(file string) error {
	others, err := read(file)
	if err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(line Line) bool { return line.Suite == r.suite })
	if err := write(file, append(others, r.lines...)); err != nil {
		return err
	}
	for _, line := range r.lines {
		if line.Counted && !line.Met {
			return fmt.Errorf("a count missed its target: %s", line)
		}
	}
	return nil
}

// read is what programs have measured before, if there is anything.
func read(file string) ([]Line, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var lines []Line
	if err := json.Unmarshal(text, &lines); err != nil {
		return nil, fmt.Errorf("read results in %s: %w", file, err)
	}
	return lines, nil
}

func write(file string, lines []Line) error {
	text, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
