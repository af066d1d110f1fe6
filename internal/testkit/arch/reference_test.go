package arch

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	metricName = regexp.MustCompile(`^swarm_[a-z]+_[a-z_]+$`)
	metricRow  = regexp.MustCompile("(?m)^\\| `(swarm_[a-z_]+)` \\|")
	reasonName = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	codeSpan   = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
)

// The table of metrics names each metric of the operator, and no other.
func TestReferenceHasEveryMetric(t *testing.T) {
	inCode := literals(t, metricName, func(f file) bool { return !f.test && !strings.HasPrefix(f.path, "test/") })
	var documented []string
	for _, match := range metricRow.FindAllStringSubmatch(readText(t, "docs/reference/metrics.md"), -1) {
		documented = append(documented, match[1])
	}
	for _, name := range inCode {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/reference/metrics.md has no row for %s", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(inCode, name) {
			t.Errorf("docs/reference/metrics.md has a row for %s, which does not exist", name)
		}
	}
}

// The tables of reasons name each reason in the API, and none that no code uses.
func TestReferenceHasEveryReason(t *testing.T) {
	page := readText(t, "docs/reference/events.md")
	inAPI := literals(t, reasonName, func(f file) bool { return f.path == "api/v1alpha1/conditions.go" })
	inCode := literals(t, reasonName, func(f file) bool { return !f.test && !strings.HasPrefix(f.path, "test/") })
	for _, name := range inAPI {
		if condition := slices.Contains([]string{"Ready", "Progressing", "Degraded"}, name); !condition && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/reference/events.md does not name the reason %s", name)
		}
	}
	for line := range strings.Lines(page) {
		first, _, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, match := range codeSpan.FindAllStringSubmatch(first, -1) {
			if isRow && !slices.Contains(inCode, match[1]) {
				t.Errorf("docs/reference/events.md has a row for %s, which does not exist", match[1])
			}
		}
	}
}

// literals returns the strings in chosen files that match a pattern.
func literals(t *testing.T, pattern *regexp.Regexp, chosen func(file) bool) []string {
	t.Helper()
	read, err := readTree(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range read.files {
		if !chosen(f) || path.Base(f.folder) == "arch" {
			continue
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			if literal, is := node.(*ast.BasicLit); is {
				if text, err := strconv.Unquote(literal.Value); err == nil && pattern.MatchString(text) {
					found = append(found, text)
				}
			}
			return true
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// The invariants in ARCHITECTURE.md name the tests that fail without them.
func TestArchitectureNamesTestsThatExist(t *testing.T) {
	read, err := readTree(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]bool{}
	for _, f := range read.files {
		for _, declaration := range f.syntax.Decls {
			if function, is := declaration.(*ast.FuncDecl); is && f.test {
				exist[function.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`").FindAllStringSubmatch(readText(t, "ARCHITECTURE.md"), -1)
	if len(named) < 50 {
		t.Errorf("found %d names of tests", len(named))
	}
	for _, match := range named {
		if !exist[match[1]] {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", match[1])
		}
	}
}
