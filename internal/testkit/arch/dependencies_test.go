package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const dependencyPage = "docs/decisions/dependencies.md"

// A new direct dependency needs a line that says why it is better than our own code and than its alternatives.
func TestEveryDirectDependencyHasItsReason(t *testing.T) {
	page := readText(t, dependencyPage)
	for _, module := range []string{"go.mod", "tools/go.mod", "tools/lint/go.mod", "test/alerts/go.mod", "test/bench/peers/go.mod",
		"test/certmanager/go.mod", "test/monitoring/go.mod"} {
		for _, dependency := range directDependencies(readText(t, module)) {
			if !strings.Contains(page, "| `"+dependency+"` |") {
				t.Errorf("%s needs %s, and %s does not say why", module, dependency, dependencyPage)
			}
		}
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
