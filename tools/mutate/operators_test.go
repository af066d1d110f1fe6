package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) *source {
	t.Helper()
	file := &source{path: "a.go", content: []byte(text), set: token.NewFileSet()}
	var err error
	if file.tree, err = parser.ParseFile(file.set, file.path, file.content, parser.ParseComments); err != nil {
		t.Fatal(err)
	}
	return file
}

func changes(mutants []mutant) []string {
	var all []string
	for _, m := range mutants {
		all = append(all, m.change)
	}
	return all
}

func TestOperators(t *testing.T) {
	for reason, c := range map[string]struct {
		body string
		want []string
	}{
		"a condition is negated once, and its body removed": {
			"if a == b { return 7 }\n_ = a",
			[]string{"negated `a == b`", "removed the body of `if a == b`", "`return 7` to `return 0`",
				"`7` to `7+1` in `if a == b { return 7 }`", "`7` to `7-1` in `if a == b { return 7 }`"},
		},
		"a body of one removable statement is the same mutant": {"if x { a++ }", []string{"negated `x`", "removed `a++`"}},
		"boundaries move":               {"x = a < b", []string{"removed `x = a < b`", "`<` to `<=` in `a < b`"}},
		"connectives are swapped":       {"y := x && z", []string{"`&&` to `||` in `x && z`"}},
		"equality outside of an if":     {"y := a != b", []string{"`!=` to `==` in `a != b`"}},
		"cases without a tag":           {"switch { case x: }", []string{"negated `x`"}},
		"cases with a tag stay":         {"switch a { case b: }", nil},
		"calls, defers and sends":       {"f()\ndefer f()\nc <- a", []string{"removed `f()`", "removed `defer f()`", "removed `c <- a`"}},
		"declarations stay":             {"y := f()", nil},
		"loops end otherwise":           {"for x { f() }", []string{"negated `x`", "removed `f()`"}},
		"logging is left alone":         {"log.Info(\"a\", 1)\ns.logger.V(1).Error(err, \"b\")\nslog.Warn(\"c\")", nil},
		"what only looks like logging":  {"book.Info(a)", []string{"removed `book.Info(a)`"}},
		"if that only logs":             {"if x { log.Info(\"a\") }", []string{"negated `x`"}},
		"capacity is only speed":        {"y := make([]int, a, 8)\nw := make(map[int]int, 9)", nil},
		"zero is not replaced by zero":  {"return 0", []string{"`0` to `0+1` in `return 0`", "`0` to `0-1` in `return 0`"}},
		"literals have results as well": {"y := func() error { return f() }", []string{"`return f()` to `return nil`"}},
	} {
		t.Run(reason, func(t *testing.T) {
			file := parse(t, "package p\n\nfunc g(a, b int, x, z bool) int {\n"+c.body+"\n}\n")
			if got := changes(findMutants(file)); !slices.Equal(got, c.want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), strings.Join(c.want, "; "))
			}
		})
	}
}

func TestReturnsOfSeveralResults(t *testing.T) {
	file := parse(t, "package p\n\nfunc g() (n int, t time.Time, err error) {\n\tif a { return h() }\n\treturn n, t, err\n}\n")
	got := changes(findMutants(file))
	for _, want := range []string{
		"`return h()` to `return 0, *new(time.Time), nil`", "`return n, t, err` to `return 0, t, err`",
		"`return n, t, err` to `return n, *new(time.Time), err`", "`return n, t, err` to `return n, t, nil`",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
}

func TestFunctionsThatRecoverAreLeftAlone(t *testing.T) {
	direct := parse(t, "package p\n\nfunc g() { if x { recover(); f() } }\n")
	if got := findMutants(direct); len(got) > 0 {
		t.Errorf("got %v: a copy of a deferred function could not recover", changes(got))
	}
	nested := parse(t, "package p\n\nfunc g() { defer func() { recover() }() }\n")
	if got := findMutants(nested); len(got) == 0 {
		t.Error("a function that defers a literal with recover can be copied")
	}
}

func TestMutatedFilesCallTheCopies(t *testing.T) {
	for reason, c := range map[string]struct{ source, want string }{
		"method":     {"func (r *T) g(a int, b ...string) bool { return a < 1 }", "return r.g_mutant1(a, b...)"},
		"no result":  {"func g(a int) { f(a) }", "g_mutant1(a); return"},
		"blank":      {"func g(_ int) { f() }", "(mutantArg18); return"},
		"unnamed":    {"func (T) g(int) { f() }", "mutantArg17.g_mutant1(mutantArg22); return"},
		"type param": {"func g[K, V any](a K) V { return f[K, V](a) }", "return g_mutant1[K, V](a)"},
	} {
		t.Run(reason, func(t *testing.T) {
			file := parse(t, "package p\n\n"+c.source+"\n")
			mutants := findMutants(file)[:1]
			mutants[0].id = 1
			woven := string(writeMutants(file, mutants))
			parse(t, woven)
			if !strings.Contains(woven, c.want) || !strings.Contains(woven, "//line mutant_1.go:1\n") {
				t.Errorf("want %q in\n%s", c.want, woven)
			}
		})
	}
}

func TestSampleDependsOnSeedAndPackageOnly(t *testing.T) {
	order := func(seed uint64, path string) string {
		mutants := make([]mutant, 50)
		for n := range mutants {
			mutants[n].id = n
		}
		shuffle(mutants, seed, path)
		var ids []int
		for _, m := range mutants {
			ids = append(ids, m.id)
		}
		return fmt.Sprint(ids)
	}
	first, again := order(1, "a"), order(1, "a")
	if first != again {
		t.Error("the same seed gave another order")
	}
	if order(1, "a") == order(2, "a") || order(1, "a") == order(1, "b") {
		t.Error("another seed or package gave the same order")
	}
}

func TestLongTextsAreShortened(t *testing.T) {
	if got := shorten("a\n\tb " + strings.Repeat("é", 100)); len([]rune(got)) != longestText || !strings.HasPrefix(got, "a b é") ||
		!strings.HasSuffix(got, "...") {
		t.Errorf("got %q", got)
	}
}
