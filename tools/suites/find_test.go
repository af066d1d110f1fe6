package main

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func treeOf(files ...string) fstest.MapFS {
	tree := fstest.MapFS{}
	for _, file := range files {
		tree[file] = &fstest.MapFile{}
	}
	return tree
}

func TestDiscoverFindsEveryFolderWithTests(t *testing.T) {
	all, err := discover(treeOf("go.mod", "kit/kit_test.go", "kit/kit.go", "tools/go.mod", "tools/image/image_test.go", "tools/lint/go.mod",
		"tools/lint/a_test.go",
		"test/integration/suite_test.go", "test/integration/pool/suite_test.go", "test/e2e/pool/suite_test.go",
		"test/e2e/pool/testdata/x_test.go",
		"test/devcluster/suite_test.go", "test/cmd/probe/main.go", "bin/suites/x_test.go", ".git/x_test.go", "test/e2e/empty/doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(all), []string{"devcluster", "e2e/pool", "integration", "integration/pool", "unit"}; !slices.Equal(got, want) {
		t.Fatalf("suites: %q, want %q", got, want)
	}
	for n, want := range []string{"e2e-devcluster", "e2e-pool", "integration-integration", "integration-pool", "unit"} {
		if got := all[n].report(); got != want {
			t.Errorf("report of %s: %q, want %q", all[n].name, got, want)
		}
	}
	var packages []string
	for _, m := range all[4].modules {
		packages = append(packages, m.report()+" "+strings.Join(m.packages, " "))
	}
	if want := []string{"unit-root.json ./kit", "unit-tools.json ./image", "unit-tools-lint.json ./"}; !slices.Equal(packages, want) {
		t.Errorf("unit tests: %q, want %q", packages, want)
	}
}

// The list of Git is an independent witness: every test file of the repository belongs to a suite or to the unit tests of a module, and
// `make check` runs all of them.
func TestO19_CIJobsRunEveryFolderWithTests(t *testing.T) {
	all, err := discover(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]bool{}
	for _, s := range all {
		run[s.folder] = true
		for _, m := range s.modules {
			for _, one := range m.packages {
				run[path.Join(m.root, one)] = true
			}
		}
	}
	for file := range strings.Lines(output(t, "git", "ls-files", "*_test.go")) {
		folder := path.Dir(strings.TrimSpace(file))
		if !run[folder] && !strings.Contains(folder, "testdata") {
			t.Errorf("no target runs the tests in %s", folder)
		}
	}
	if plan := output(t, "make", "--dry-run", "check"); !strings.Contains(plan, "unit integration e2e") {
		t.Errorf("make check does not run all levels:\n%s", plan)
	}
}

// [R19/suites-pass] is proven by all suites on real nodes or by none: each names it, and so a failed spec of any fails it.
func TestEverySuiteOnRealNodesIsAskedToPass(t *testing.T) {
	all, err := discover(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.kind == realNodes && !strings.Contains(read(t, path.Join("../..", s.folder, "suite_test.go")), " [R19/suites-pass]\")") {
			t.Errorf("RunSpecs of %s does not name [R19/suites-pass]", s.name)
		}
	}
}

func TestFindChoosesByLevelNameAndCluster(t *testing.T) {
	for reason, c := range map[string]struct {
		chosen options
		want   []string
	}{
		"a level":               {options{levels: []string{"unit"}}, []string{"unit"}},
		"one suite":             {options{levels: []string{"integration"}, only: []string{"integration/pool"}}, []string{"integration/pool"}},
		"a suite of no level":   {options{levels: []string{"integration"}, only: []string{"unit"}}, nil},
		"not on a foreign host": {options{levels: []string{"e2e"}, only: []string{"devcluster"}, kubeconfig: "x"}, nil},
	} {
		c.chosen.root = "../.."
		found, err := find(c.chosen)
		if got := names(found); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v, want %q", reason, got, err, c.want)
		}
	}
	if _, err := find(options{root: "../..", levels: levels, only: []string{"integration/typo"}}); err == nil ||
		!strings.Contains(err.Error(), `no suite "integration/typo": there are devcluster, `) {
		t.Errorf("a suite that does not exist: %v", err)
	}
}

func TestLanesTakeSuitesOfTheirClusterKind(t *testing.T) {
	waiting := []suite{
		{name: "e2e/install", kind: realNodes}, {name: "integration/crash", kind: simulated}, {name: "e2e/swarm", kind: realNodes},
		{name: "devcluster", kind: noCluster},
	}
	var taken []string
	for _, has := range []kind{"", realNodes, simulated, simulated, simulated} {
		next, rest, found := takeSuite(waiting, has)
		if !found {
			next.name = "nothing"
		}
		taken, waiting = append(taken, next.name), rest
	}
	if want := []string{"e2e/install", "e2e/swarm", "integration/crash", "devcluster", "nothing"}; !slices.Equal(taken, want) {
		t.Errorf("taken: %q, want %q", taken, want)
	}
}

func TestOrderStartsWithSlowSuites(t *testing.T) {
	suites := []suite{{name: "devcluster"}, {name: "e2e/certmanager"}, {name: "e2e/a-new-one"}, {name: "e2e/namespaced"}, {name: "e2e/swarm"},
		{name: "e2e/install"}}
	slices.SortStableFunc(suites, byOrder)
	if got, want := names(suites), []string{"e2e/install", "e2e/swarm", "e2e/namespaced", "e2e/a-new-one", "e2e/certmanager",
		"devcluster"}; !slices.Equal(got, want) {
		t.Errorf("order: %q, want %q", got, want)
	}
}
