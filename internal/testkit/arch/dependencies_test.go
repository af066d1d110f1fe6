package arch

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const dependencyPage = "docs/decisions/dependencies.md"

// A new direct dependency needs a line that says why it is better than our own code and than its alternatives.
func TestEveryDirectDependencyHasItsReason(t *testing.T) {
	page := readText(t, dependencyPage)
	for _, module := range []string{"go.mod", "tools/go.mod", "tools/lint/go.mod", "test/alerts/go.mod", "test/bench/peers/go.mod",
		"test/certmanager/go.mod"} {
		for _, dependency := range directDependencies(readText(t, module)) {
			if !strings.Contains(page, "| `"+dependency+"` |") {
				t.Errorf("%s needs %s, and %s does not say why", module, dependency, dependencyPage)
			}
		}
	}
}

// maxDependencies is how many modules the programs and public packages may require directly. Those of tests come on top.
const maxDependencies = 25

func TestProgramsRequireFewModules(t *testing.T) {
	read, err := readTree(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]bool{}
	for _, f := range read.productionFiles() {
		for name := range f.imports() {
			imported[name] = true
		}
	}
	var required []string
	for _, dependency := range directDependencies(readText(t, "go.mod")) {
		if slices.ContainsFunc(slices.Collect(maps.Keys(imported)), func(name string) bool {
			return name == dependency || strings.HasPrefix(name, dependency+"/")
		}) {
			required = append(required, dependency)
		}
	}
	if len(required) == 0 || len(required) > maxDependencies {
		t.Errorf("programs require %d modules, at most %d are allowed: %q", len(required), maxDependencies, required)
	}
}

func TestDirectDependencies(t *testing.T) {
	got := directDependencies(`module x

tool example.test/a/cmd/x

require example.test/one v1.0.0

require (
	example.test/two v2.0.0
	example.test/three v3.0.0 // indirect
)

replace (
	example.test/four => ../four
)
`)
	if strings.Join(got, " ") != "example.test/one example.test/two" {
		t.Errorf("got %q", got)
	}
}

// directDependencies are the required modules that go.mod does not call indirect.
func directDependencies(module string) []string {
	var paths []string
	block := ""
	for line := range strings.Lines(module) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasSuffix(strings.TrimSpace(line), "// indirect"):
		case len(words) == 2 && words[1] == "(":
			block = words[0]
		case words[0] == ")":
			block = ""
		case words[0] == "require":
			paths = append(paths, words[1])
		case block == "require":
			paths = append(paths, words[0])
		}
	}
	return paths
}

func readText(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
