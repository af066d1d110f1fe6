package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// An event is a line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
}

// A goRun is what the events say about one test.
type goRun struct {
	packagePath string
	path        []string // the name of the test, then those of subtests
	outcome     outcome
	ended       bool
}

func (r *goRun) name() string { return r.packagePath + "." + strings.Join(r.path, "/") }

func (r *goRun) parent() string {
	return r.packagePath + "." + strings.Join(r.path[:len(r.path)-1], "/")
}

func readGoTest(content []byte) ([]test, error) {
	runs, err := parseEvents(content)
	if err != nil {
		return nil, err
	}
	hideSkipped(runs)
	var tests []test
	for _, run := range runs {
		// What a parent claims is part of its children's names too: each test answers for its own part of the name only.
		if claims := claimsInGoTest(run.path[len(run.path)-1]); len(claims) > 0 {
			tests = append(tests, test{name: run.name(), claims: claims, outcome: run.outcome})
		}
	}
	return tests, nil
}

// splitPath splits the name of a test at its slashes, except those between an id and its clause.
func splitPath(name string) []string {
	const slash = "\x00"
	hidden := bracketed.ReplaceAllStringFunc(name, func(group string) string { return strings.ReplaceAll(group, "/", slash) })
	parts := strings.Split(hidden, "/")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], slash, "/")
	}
	return parts
}

// parseEvents gives the tests in the order they began.
func parseEvents(content []byte) ([]*goRun, error) {
	var runs []*goRun
	byName := map[string]*goRun{}
	for decoder := json.NewDecoder(bytes.NewReader(content)); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("decode go test event: %w", err)
		}
		if e.Test == "" {
			continue
		}
		name := e.Package + "." + e.Test
		if byName[name] == nil {
			byName[name] = &goRun{packagePath: e.Package, path: splitPath(e.Test)}
			runs = append(runs, byName[name])
		}
		byName[name].apply(e)
	}
	for _, run := range runs {
		if !run.ended { // it died with its process
			run.finish(failed)
		}
	}
	return runs, nil
}

// apply keeps the worst outcome, because -count runs a test more than once.
func (r *goRun) apply(e event) {
	switch e.Action {
	case "run":
		r.ended = false
	case "pass":
		r.finish(passed)
	case "fail":
		r.finish(failed)
	case "skip":
		r.finish(skipped)
	}
}

func (r *goRun) finish(with outcome) {
	r.outcome, r.ended = max(r.outcome, with), true
}

// hideSkipped takes a pass away from tests whose subtests were all skipped: Go calls them passed, yet nothing was tried.
// Backwards, because children begin after their parents and must be judged first.
func hideSkipped(runs []*goRun) {
	executed := map[string]bool{} // by parent; no entry: no children
	for _, run := range slices.Backward(runs) {
		if some, isParent := executed[run.name()]; isParent && !some && run.outcome == passed {
			run.outcome = skipped
		}
		executed[run.parent()] = executed[run.parent()] || run.outcome != skipped
	}
}
