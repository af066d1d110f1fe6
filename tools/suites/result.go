package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A result is the result of a suite.
type result struct {
	suite
	duration  time.Duration
	err       error  // of its process
	log       string // the file with everything it printed
	artifacts string // the folder with what explains a failure
	specs     []spec
	counts    counts
}

// counts are specs or Go tests by outcome.
type counts struct{ passed, failed, skipped int }

func (c counts) add(d counts) counts {
	return counts{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped}
}

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func (r result) hasFailed() bool { return r.err != nil || r.counts.failed > 0 || r.counts.passed == 0 }

func (r result) String() string {
	verdict := "ok"
	if r.hasFailed() {
		verdict = "FAILED"
	}
	return fmt.Sprintf("%s: %s in %s (%s)", r.name, verdict, r.duration.Round(time.Second), r.counts)
}

// read takes the specs from the report. A suite without a readable report, or in which nothing ran, has failed.
func (r *result) read(in *runner) {
	if r.folder == "" {
		r.readUnit(in)
		return
	}
	content, err := os.ReadFile(in.results(r.report() + ".json"))
	if err == nil {
		r.specs, err = decodeReport(content)
	}
	if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("read report: %w", err))
	}
	for _, s := range r.specs {
		r.counts = r.counts.add(s.counts())
	}
	if r.err == nil && r.counts.passed == 0 {
		r.err = errors.New("no spec passed")
	}
}

// readUnit counts the Go tests of all modules.
func (r *result) readUnit(in *runner) {
	for _, m := range r.modules {
		content, err := os.ReadFile(in.results(m.report()))
		counted, decodeErr := countEvents(content)
		r.counts, r.err = r.counts.add(counted), errors.Join(r.err, err, decodeErr)
	}
	if r.err == nil && r.counts.passed == 0 {
		r.err = errors.New("no test passed")
	}
}

// countEvents counts the tests in the output of `go test -json`, without subtests.
func countEvents(content []byte) (counts, error) {
	var sum counts
	for decoder := json.NewDecoder(bytes.NewReader(content)); ; {
		var event struct{ Action, Test string }
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return sum, nil
		} else if err != nil {
			return sum, fmt.Errorf("decode test event: %w", err)
		}
		if event.Test == "" || strings.Contains(event.Test, "/") {
			continue
		}
		switch event.Action {
		case "pass":
			sum.passed++
		case "fail":
			sum.failed++
		case "skip":
			sum.skipped++
		}
	}
}

// explain prints why a suite failed, and where the rest is.
func (r result) explain(out io.Writer) {
	if !r.hasFailed() {
		return
	}
	for _, s := range r.specs {
		s.explain(out)
	}
	if r.counts.failed == 0 || r.folder == "" {
		fmt.Fprintf(out, "%s: %v; the end of its output:\n%s\n", r.name, r.err, tailOf(r.log))
	}
	fmt.Fprintf(out, "what explains it is kept in %s\n", r.artifacts)
}

func tailOf(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return tail(string(content))
}
