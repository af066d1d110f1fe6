package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// An outcome of a test or of a measurement. Only passed proves; failed always wins over passed.
type outcome int

const (
	skipped outcome = iota
	passed
	failed
	missed // a measurement that did not reach its target
	stale  // a measurement of code that has changed since
)

func (o outcome) String() string {
	return [...]string{"skipped", "passed", "failed", "missed", "stale"}[o]
}

// A test is one result: a Go test or subtest, a Ginkgo spec, or a line of what was measured.
type test struct {
	level   string
	name    string
	claims  []claim
	outcome outcome
}

const bench = "bench"

// levels in the order they are printed. A test proves clauses of its own level and of those before it, except for the last, which is apart.
var levels = []string{"unit", "integration", "e2e", bench}

// isSufficient reports whether a test of a level can prove a clause that needs another.
func isSufficient(level, needed string) bool {
	if level == bench || needed == bench {
		return level == needed
	}
	return slices.Index(levels, level) >= slices.Index(levels, needed)
}

// readResults reads every .json file of a folder. It does not look into folders below.
func readResults(folder fs.FS) ([]test, error) {
	names, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, err
	}
	var result []test
	for _, name := range names {
		tests, err := readFile(folder, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		result = append(result, tests...)
	}
	return result, nil
}

func readFile(folder fs.FS, name string) ([]test, error) {
	level, err := levelOf(name)
	if err != nil {
		return nil, err
	}
	content, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, err
	}
	read := readGoTest
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("[")) {
		read = readGinkgo
	}
	tests, err := read(content)
	for i := range tests {
		tests[i].level = level
	}
	return tests, err
}

// levelOf is what the name of a file begins with: unit.json, integration-pool.json.
func levelOf(name string) (string, error) {
	level := strings.TrimSuffix(name, path.Ext(name))
	if end := strings.IndexAny(level, ".-_"); end >= 0 {
		level = level[:end]
	}
	if level == bench || !slices.Contains(levels, level) {
		return "", fmt.Errorf("find level: %q is none of %s", level, strings.Join(levels[:len(levels)-1], ", "))
	}
	return level, nil
}
