package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// An outcome of a test. Only passed proves; failed always wins over passed.
type outcome int

const (
	skipped outcome = iota
	passed
	failed
)

// A test is one result: a Go test, subtest or benchmark, or a Ginkgo spec.
type test struct {
	level   string
	name    string
	ids     []string
	outcome outcome
}

// levels in the order they are printed.
var levels = []string{"unit", "integration", "e2e", "bench", "robustness"}

// readResults reads every .json file of a folder. It does not look into folders below.
func readResults(folder fs.FS) ([]test, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, err
	}
	var all []test
	for _, entry := range entries {
		if entry.IsDir() || path.Ext(entry.Name()) != ".json" {
			continue
		}
		tests, err := readFile(folder, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", entry.Name(), err)
		}
		all = append(all, tests...)
	}
	return all, nil
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

func levelOf(name string) (string, error) {
	level := name
	if end := strings.IndexAny(name, ".-_"); end >= 0 {
		level = name[:end]
	}
	if !slices.Contains(levels, level) {
		return "", fmt.Errorf("find level: %q is none of %s", level, strings.Join(levels, ", "))
	}
	return level, nil
}
