package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A measured run is what one suite of `make bench` writes. The writer is test/bench/report, of another module.
type measuredRun struct {
	Suite    string
	Commit   string
	Date     string
	Machine  *struct{ OS string } // only its presence matters
	Packages map[string]string    // folders that were measured, with the hash of their Git trees
	Lines    []measure
	Digest   string
}

type measure struct {
	Measure string
	Ours    float64
	Target  float64
	AtLeast bool
	Met     bool

	NotReached bool
}

// isMet is computed again: the value in the file is not used.
func (m measure) isMet() bool {
	switch {
	case m.NotReached:
		return false
	case m.AtLeast:
		return m.Ours >= m.Target
	default:
		return m.Ours <= m.Target
	}
}

// readBench takes lines that met their target for tests that passed. It also returns which runs are stale, and why.
func readBench(ctx context.Context, root, file string) (tests []test, staleRuns []string, err error) {
	runs, err := readRuns(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read what was measured in %s: %w (make bench writes it)", file, err)
	}
	for _, run := range runs {
		reason := run.staleReason(ctx, root)
		if reason != "" {
			staleRuns = append(staleRuns, fmt.Sprintf("%s, measured on %.12s: %s", run.Suite, run.Commit, reason))
		}
		tests = append(tests, run.tests(reason != "")...)
	}
	return tests, staleRuns, nil
}

func readRuns(file string) ([]measuredRun, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var document struct{ Runs []json.RawMessage }
	if err := json.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	if len(document.Runs) == 0 {
		return nil, errors.New("there are no runs")
	}
	var runs []measuredRun
	for _, raw := range document.Runs {
		run, err := readRun(raw)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func readRun(raw json.RawMessage) (run measuredRun, err error) {
	if err := json.Unmarshal(raw, &run); err != nil {
		return run, err
	}
	actual, err := digest(raw)
	if err != nil {
		return run, err
	}
	if actual != run.Digest {
		return run, fmt.Errorf("suite %q was edited after it was measured: its digest is another", run.Suite)
	}
	for _, line := range run.Lines {
		if line.Met != line.isMet() {
			return run, fmt.Errorf("suite %q, %q: it says met %t, and that is wrong for %g and the target %g",
				run.Suite, line.Measure, line.Met, line.Ours, line.Target)
		}
	}
	return run, nil
}

// digest is over everything else in a run, in the order of keys that encoding/json gives a map.
func digest(raw json.RawMessage) (string, error) {
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return "", err
	}
	delete(content, "digest")
	text, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text)), nil
}

func (r measuredRun) tests(isStale bool) []test {
	var tests []test
	for _, line := range r.Lines {
		claims := claimsInText(line.Measure)
		if len(claims) == 0 {
			continue
		}
		result := passed
		switch {
		case isStale:
			result = stale
		case !line.isMet():
			result = missed
		}
		tests = append(tests, test{level: bench, name: r.Suite + ": " + line.Measure, claims: claims, outcome: result})
	}
	return tests
}

// staleReason is why a run does not apply to the current source, or empty.
func (r measuredRun) staleReason(ctx context.Context, root string) string {
	if unknown := r.missingSource(); unknown != "" {
		return unknown + " unknown"
	}
	var changed []string
	for folder, tree := range r.Packages {
		if !isUnchanged(ctx, root, folder, tree) {
			changed = append(changed, folder)
		}
	}
	if len(changed) == 0 {
		return ""
	}
	slices.Sort(changed)
	return "changed since: " + strings.Join(changed, ", ")
}

// missingSource is what a run does not say about where it comes from, or empty.
func (r measuredRun) missingSource() string {
	switch {
	case r.Commit == "":
		return "commit"
	case r.Date == "":
		return "date"
	case r.Machine == nil:
		return "machine"
	case len(r.Packages) == 0:
		return "measured packages"
	}
	return ""
}

// isUnchanged reports whether a folder holds the same program as the tree that was measured, and has no uncommitted changes.
func isUnchanged(ctx context.Context, root, folder, measuredTree string) bool {
	if edits, err := gitOutput(ctx, root, "status", "--porcelain", "--", ":/"+folder); err != nil || len(edits) > 0 {
		return false
	}
	tree, err := gitOutput(ctx, root, "rev-parse", "HEAD:"+folder)
	if err != nil {
		return false
	}
	same, err := sameProgram(ctx, root, measuredTree, string(tree))
	return err == nil && same
}
