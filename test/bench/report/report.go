// Package report prints measures next to their targets and keeps them in a file that several programs share.
//
// Each suite has one run in the file and replaces only its own. A run records where its numbers come from: the commit, the date,
// the machine, and the packages that were measured, so that stale numbers are noticed; a digest reveals edits by hand.
// Counts that miss their target are an error in the end; times and sizes are not, because machines differ, unless their target is a
// bound that the project promises for every machine: such a size is counted.
package report

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Line is one measure and its target.
type Line struct {
	Measure string  `json:"measure"`
	Ours    float64 `json:"ours"`
	Peer    *Peer   `json:"peer,omitempty"`
	Target  float64 `json:"target"`            // at most this
	AtLeast bool    `json:"atLeast,omitempty"` // at least this
	Unit    string  `json:"unit"`
	Counted bool    `json:"counted"` // a count or a promised bound, which may fail the benchmark
	Met     bool    `json:"met"`

	NotReached bool `json:"notReached,omitempty"` // it took too long to be measured completely, and so missed its target
}

// Peer is what another program needs for the same work in the same run.
type Peer struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Report holds all measures of a suite so far.
type Report struct {
	run run
}

// A run is the entry of a suite in the file. tools/acceptance reads it.
type run struct {
	Suite string `json:"suite"`
	source
	Lines  []Line `json:"lines"`
	Digest string `json:"digest"`
}

// results are the content of the file.
type results struct {
	Runs []run `json:"runs"`
}

// New returns an empty report. It fails if it cannot determine where its numbers will come from: packages are the folders,
// relative to the root of the repository, whose code the numbers depend on.
func New(ctx context.Context, suite string, packages ...string) (*Report, error) {
	from, err := originOf(ctx, packages)
	if err != nil {
		return nil, fmt.Errorf("begin suite %q: %w", suite, err)
	}
	return &Report{run: run{Suite: suite, source: from}}, nil
}

// Count adds a count that is the same on every machine, or a bound that must hold on every machine.
func (r *Report) Count(measure string, ours, most float64, unit string) {
	r.Add(Line{Measure: measure, Ours: ours, Target: most, Unit: unit, Counted: true})
}

// Time adds a time or a size: it depends on the machine, and is only shown.
func (r *Report) Time(measure string, ours, most float64, unit string) {
	r.Add(Line{Measure: measure, Ours: ours, Target: most, Unit: unit})
}

// Add adds a line and prints it.
func (r *Report) Add(line Line) {
	line.Met = line.Ours <= line.Target
	if line.AtLeast {
		line.Met = line.Ours >= line.Target
	}
	line.Met = line.Met && !line.NotReached
	r.run.Lines = append(r.run.Lines, line)
	fmt.Println(line)
}

// String formats the line for people.
func (l Line) String() string {
	sign, verdict, peer := "<=", "met", ""
	if l.AtLeast {
		sign = ">="
	}
	switch {
	case l.NotReached:
		verdict = "NOT REACHED"
	case !l.Met:
		verdict = "NOT MET"
	}
	if l.Peer != nil {
		peer = fmt.Sprintf("  (%s: %.2f)", l.Peer.Name, l.Peer.Value)
	}
	return fmt.Sprintf("%-72s %10.2f %-6s target %s %-6g %s%s", l.Measure, l.Ours, l.Unit, sign, l.Target, verdict, peer)
}

// Close writes the run to the file, and fails if a count missed its target.
func (r *Report) Close(file string) error {
	content, err := read(file)
	if err != nil {
		return err
	}
	if r.run.Digest, err = digest(r.run); err != nil {
		return err
	}
	content.Runs = slices.DeleteFunc(content.Runs, func(other run) bool { return other.Suite == r.run.Suite })
	content.Runs = append(content.Runs, r.run)
	if err := writeResults(file, content); err != nil {
		return err
	}
	return r.Missed()
}

// Missed returns an error if a count missed its target.
func (r *Report) Missed() error {
	var missed []error
	for _, line := range r.run.Lines {
		if line.Counted && !line.Met {
			missed = append(missed, fmt.Errorf("a count missed its target: %s", line))
		}
	}
	return errors.Join(missed...)
}

// digest covers everything else in a run, in the order of keys that encoding/json gives a map: it must depend neither on the
// layout of the file nor on the order of fields in Go.
func digest(r run) (string, error) {
	r.Digest = ""
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode run: %w", err)
	}
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		return "", fmt.Errorf("decode run: %w", err)
	}
	delete(content, "digest")
	if text, err = json.Marshal(content); err != nil {
		return "", fmt.Errorf("encode run: %w", err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text)), nil
}

// read returns what suites have measured before, if there is anything.
func read(file string) (result results, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return result, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		return result, fmt.Errorf("read results in %s: %w", file, err)
	}
	return result, nil
}

func writeResults(file string, all results) error {
	text, err := json.MarshalIndent(all, "", "  ")
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
