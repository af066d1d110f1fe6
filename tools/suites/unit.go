package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// withoutDWARF has tests linked without what only debuggers read. Linking is most of what tests cost, and takes a third longer with it;
// stack traces need none of it.
const withoutDWARF = "-ldflags=-w"

// A module is a Go module with its unit tests, which run together.
type module struct {
	root     string   // relative to the repository's; "." is that itself
	packages []string // with tests, relative to the module's root
}

// report is the file of its results.
func (m module) report() string {
	name := strings.ReplaceAll(m.root, "/", "-")
	if m.root == "." {
		name = "root"
	}
	return "unit-" + name + ".json"
}

// modulesOf sorts folders with tests to the innermost module that holds them.
func modulesOf(folders, roots []string) []module {
	byRoot := map[string]*module{}
	for _, folder := range folders {
		root := innermost(folder, roots)
		if byRoot[root] == nil {
			byRoot[root] = &module{root: root}
		}
		relative := strings.TrimPrefix(strings.TrimPrefix(folder, root), "/")
		if root == "." {
			relative = folder
		}
		byRoot[root].packages = append(byRoot[root].packages, "./"+relative)
	}
	var modules []module
	for _, root := range roots {
		if found := byRoot[root]; found != nil {
			modules = append(modules, *found)
		}
	}
	return modules
}

func innermost(folder string, roots []string) string {
	for at := folder; at != "."; at = path.Dir(at) {
		for _, root := range roots {
			if root == at {
				return root
			}
		}
	}
	return "."
}

// modulesAtOnce is how many modules are tested at the same time: while the last tests of a large one wait for each other, another uses the
// processors.
const modulesAtOnce = 2

// runUnitTests runs the unit tests of all modules, whatever fails.
func (l *lane) runUnitTests(ctx context.Context, modules []module, log *os.File) error {
	problems, slots := make([]error, len(modules)), make(chan struct{}, modulesAtOnce)
	var running sync.WaitGroup
	for n, m := range modules {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			problems[n] = l.testModule(ctx, m, log)
		})
	}
	running.Wait()
	return errors.Join(problems...)
}

// packagesAtOnce is how many packages of a module are tested at the same time. Many tests wait most of their time.
const packagesAtOnce = "3"

func (l *lane) testModule(ctx context.Context, m module, log *os.File) error {
	arguments := append([]string{
		"--format", "pkgname-and-test-fails", "--hide-summary", "skipped", "--jsonfile", l.results(m.report()), "--",
		"-count=1", "-timeout=5m", "-p=" + packagesAtOnce, "-parallel=8", "-vet=off", withoutDWARF, // go vet is one of the linters
	}, m.packages...)
	command := l.command(ctx, log, filepath.Join(l.root, "bin", "gotestsum"), arguments...)
	command.Dir = filepath.Join(l.root, m.root)
	if err := command.Run(); err != nil {
		return fmt.Errorf("test module %s: %w", m.root, err)
	}
	return nil
}
