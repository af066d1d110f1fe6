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
	Output  string
}

// A run is what the events said of one test.
type goRun struct {
	name     string // package and test
	test     string
	outcome  outcome
	ended    bool
	measured bool
}

func readGoTest(content []byte) ([]test, error) {
	runs, err := replay(content)
	if err != nil {
		return nil, err
	}
	hideSkipped(runs)
	var tests []test
	for _, run := range runs {
		// The ids of a parent stand in its children's names too: each test answers for its own part of the name only.
		own := run.test[strings.LastIndex(run.test, "/")+1:]
		if ids := unique(idsInFunction(own)); len(ids) > 0 {
			tests = append(tests, test{name: run.name, ids: ids, outcome: run.outcome})
		}
	}
	return tests, nil
}

// replay gives the tests in the order they began.
func replay(content []byte) ([]*goRun, error) {
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
			byName[name] = &goRun{name: name, test: e.Test}
			runs = append(runs, byName[name])
		}
		byName[name].follow(e)
	}
	for _, run := range runs {
		run.conclude()
	}
	return runs, nil
}

// follow keeps the worst outcome, because -count runs a test more than once.
func (r *goRun) follow(e event) {
	switch e.Action {
	case "run":
		r.ended = false
	case "pass":
		r.end(passed)
	case "fail":
		r.end(failed)
	case "skip":
		r.end(skipped)
	case "output":
		r.measured = r.measured || strings.Contains(e.Output, " ns/op")
	}
}

func (r *goRun) end(with outcome) {
	r.outcome, r.ended = max(r.outcome, with), true
}

// conclude decides about a test without an end. A benchmark that did well never gets one: its measurement is its end.
// Anything else died with its process.
func (r *goRun) conclude() {
	switch {
	case r.ended:
	case r.measured:
		r.end(passed)
	default:
		r.end(failed)
	}
}

// hideSkipped takes a pass away from tests whose subtests were all skipped: Go calls them passed, yet nothing was tried.
// Backwards, because children begin after their parents and must be judged first.
func hideSkipped(runs []*goRun) {
	tried := map[string]bool{} // by parent; no entry: no children
	for _, run := range slices.Backward(runs) {
		if some, isParent := tried[run.name]; isParent && !some && run.outcome == passed {
			run.outcome = skipped
		}
		if end := strings.LastIndex(run.name, "/"); end > strings.LastIndex(run.name, "."+run.test) {
			parent := run.name[:end]
			tried[parent] = tried[parent] || run.outcome != skipped
		}
	}
}
