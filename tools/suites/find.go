package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// levels that can be named on the command line.
var levels = []string{"unit", "integration", "e2e"}

// A kind is what a suite runs on.
type kind string

const (
	noCluster kind = "none"        // the suite brings what it needs
	simulated kind = "integration" // a control plane with simulated nodes
	realNodes kind = "e2e"         // real nodes with the operator installed
)

// flags of `devcluster run` for each kind.
var flagsOf = map[kind][]string{
	simulated: {"--audit", "--simulated-nodes", "3"},
	realNodes: {"--audit", "--real-nodes", "2"},
}

// A suite is a folder with specs, or the unit tests of all modules.
type suite struct {
	name    string // its path below test/, such as integration/pool
	folder  string // relative to the root; empty: the unit tests
	level   string
	kind    kind
	modules []module // modules of the unit tests
}

// report is the base name of its results: the level comes first, because `make acceptance` reads it from there.
func (s suite) report() string {
	if s.folder == "" {
		return "unit"
	}
	return s.level + "-" + path.Base(s.name)
}

// reports are the files of its results: one, or that of each module.
func (s suite) reports() []string {
	if s.folder != "" {
		return []string{s.report() + ".json"}
	}
	var files []string
	for _, m := range s.modules {
		files = append(files, m.report())
	}
	return files
}

// binary is the path of the compiled tests.
func (s suite) binary(root string) string {
	return filepath.Join(root, "bin", "suites", s.level, path.Base(s.name)+".test")
}

// suiteRoots are the folders below which every folder with tests is a suite.
var suiteRoots = []struct {
	folder, level string
	kind          kind
}{
	{"test/integration", "integration", simulated},
	{"test/e2e", "e2e", realNodes},
	{"test/devcluster", "e2e", noCluster},
}

// find returns the chosen suites in the order in which lanes take them.
func find(o options) ([]suite, error) {
	suites, err := discover(os.DirFS(o.root))
	if err != nil {
		return nil, err
	}
	for _, name := range o.only {
		if !slices.ContainsFunc(suites, func(s suite) bool { return s.name == name }) {
			return nil, fmt.Errorf("no suite %q: there are %s", name, strings.Join(names(suites), ", "))
		}
	}
	result := slices.DeleteFunc(suites, func(s suite) bool {
		return !slices.Contains(o.levels, s.level) || len(o.only) > 0 && !slices.Contains(o.only, s.name) ||
			o.kubeconfig != "" && s.kind == noCluster && s.folder != ""
	})
	slices.SortStableFunc(result, byOrder)
	return result, nil
}

func names(suites []suite) []string {
	var all []string
	for _, s := range suites {
		all = append(all, s.name)
	}
	return all
}

// discover finds every suite of the tree, sorted by name. The folders with tests that are no suite of their own are the unit tests.
func discover(tree fs.FS) ([]suite, error) {
	folders, roots, err := walk(tree)
	if err != nil {
		return nil, err
	}
	var suites []suite
	var unit []string
	for _, folder := range folders {
		if found, ok := suiteIn(folder); ok {
			suites = append(suites, found)
		} else {
			unit = append(unit, folder)
		}
	}
	suites = append(suites, suite{name: "unit", level: "unit", kind: noCluster, modules: modulesOf(unit, roots)})
	slices.SortFunc(suites, func(a, b suite) int { return strings.Compare(a.name, b.name) })
	return suites, nil
}

// suiteIn returns the suite that a folder with tests is.
func suiteIn(folder string) (suite, bool) {
	for _, home := range suiteRoots {
		if folder == home.folder || strings.HasPrefix(folder, home.folder+"/") {
			return suite{name: strings.TrimPrefix(folder, "test/"), folder: folder, level: home.level, kind: home.kind}, true
		}
	}
	return suite{}, false
}

// walk returns the folders with tests and the folders with a go.mod, both sorted.
func walk(tree fs.FS) (folders, roots []string, err error) {
	err = fs.WalkDir(tree, ".", func(at string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (at == "bin" || at == "dist" || name == "testdata" || at != "." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case name == "go.mod":
			roots = append(roots, path.Dir(at))
		case strings.HasSuffix(name, "_test.go"):
			folders = append(folders, path.Dir(at))
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("find folders with tests: %w", err)
	}
	slices.Sort(folders)
	slices.Sort(roots)
	return slices.Compact(folders), roots, nil
}
