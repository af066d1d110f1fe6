package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A measure is a line of what `make bench` writes.
type measure struct {
	Suite   string
	Measure string
	Met     bool
}

// readBench takes a measure that met its target for a test that passed, and one that did not for one that was not run: times are no
// failure, since machines differ.
func readBench(file string) ([]test, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var lines []measure
	if err == nil {
		err = json.Unmarshal(content, &lines)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was measured: %w", err)
	}
	missed := map[string]bool{}
	for _, line := range lines {
		for _, id := range idsInText(line.Measure) {
			missed[id] = missed[id] || !line.Met
		}
	}
	var tests []test
	for _, line := range lines {
		for _, id := range unique(idsInText(line.Measure)) {
			became := passed
			if missed[id] {
				became = skipped
			}
			tests = append(tests, test{level: "bench", name: line.Suite + ": " + line.Measure, ids: []string{id}, outcome: became})
		}
	}
	return tests, nil
}
