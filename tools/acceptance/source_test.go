package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every claim in the sources of this repository must be in its list, so that a typing error is found without running the suites. -v also
// prints what would be proven if every test passed.
func TestEveryClaimInTheSourcesIsInTheList(t *testing.T) {
	content, err := os.ReadFile("../../docs/acceptance.md")
	if err != nil {
		t.Fatal(err)
	}
	sections, err := parseList(string(content))
	if err != nil {
		t.Fatal(err)
	}
	tests := claimsInSources(t, "../..")
	rows := rowsByID(sections)
	for _, one := range tests {
		for _, claimed := range one.claims {
			row, known := rows[claimed.id]
			clause, listed := claimed.findIn(row)
			switch {
			case !known || !listed:
				t.Errorf("%s: %s is not in docs/acceptance.md", one.name, claimed)
			case clause == "":
				t.Errorf("%s: %s has several clauses: name those that are asserted", one.name, claimed)
			}
		}
	}
	if all, err := collect(sections, tests); err == nil && len(tests) > 0 {
		var out bytes.Buffer
		printed := report{sections: sections, evidence: all}
		printed.writeOpen(&out)
		printed.writeSummary(&out)
		t.Logf("if every test passed:\n%s", out.String())
	} else if err == nil {
		t.Error("found no claims")
	}
}

// claimsInSources takes each file that claims something for a test that passed.
func claimsInSources(t *testing.T, root string) []test {
	t.Helper()
	var tests []test
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "tools/acceptance"}, filepath.ToSlash(name)) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		found, err := claimsInSource(path, filepath.ToSlash(name))
		tests = append(tests, found...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func claimsInSource(path, name string) ([]test, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var tests []test
	add := func(at token.Pos, claims []claim) {
		if len(claims) > 0 {
			tests = append(tests, test{level: levelOfSource(name), name: fmt.Sprintf("%s:%d", name, files.Position(at).Line), claims: claims,
				outcome: passed})
		}
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			if strings.HasSuffix(name, "_test.go") && node.Recv == nil {
				add(node.Pos(), claimsInGoTest(node.Name.Name))
			}
		case *ast.CallExpr:
			if called, ok := node.Fun.(*ast.Ident); ok && called.Name == "Label" {
				add(node.Pos(), claimsInLabels(literals(node.Args)))
			}
		case *ast.BasicLit:
			add(node.Pos(), claimsInText(strings.Join(literals([]ast.Expr{node}), "")))
		}
		return true
	})
	return tests, nil
}

func literals(expressions []ast.Expr) []string {
	var texts []string
	for _, one := range expressions {
		if literal, ok := one.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

func levelOfSource(name string) string {
	for _, place := range []struct{ folder, level string }{
		{"test/e2e/", "e2e"}, {"test/devcluster/", "e2e"}, {"test/integration/", "integration"}, {"test/bench/", bench},
	} {
		if strings.HasPrefix(name, place.folder) {
			return place.level
		}
	}
	return "unit"
}

// The rules for the list itself: its letters are those that count in the names of Go functions.
func TestOurOwnList(t *testing.T) {
	content, err := os.ReadFile("../../docs/acceptance.md")
	if err != nil {
		t.Fatal(err)
	}
	sections, err := parseList(string(content))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, s := range sections {
		total += len(s.rows)
		for _, r := range s.rows {
			if got := claimsInGoTest("Test" + r.id + "_Something"); len(got) != 1 || got[0].id != r.id {
				t.Errorf("TestX of %s names %v", r.id, got)
			}
		}
	}
	if len(sections) != 6 || total != strings.Count(string(content), "\n| ")-len(sections) {
		t.Errorf("read %d ids in %d sections", total, len(sections))
	}
}

func TestOurOwnNumbers(t *testing.T) {
	runs, err := readRuns("../../test/bench/results.json")
	if err != nil || len(runs) == 0 {
		t.Errorf("got %d runs, %v", len(runs), err)
	}
}
