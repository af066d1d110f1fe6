package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// measurements are those of the golden report: P04 reached its target, P05 did so in one of two lines only.
var measurements = []test{
	{level: bench, name: "assign: plan", claims: []claim{{id: "P04"}}, outcome: passed},
	{level: bench, name: "operator: grown", claims: []claim{{id: "P05", clause: "memory"}}, outcome: passed},
	{level: bench, name: "operator: after that", claims: []claim{{id: "P05", clause: "memory"}}, outcome: missed},
	{level: bench, name: "operator: idle", claims: []claim{{id: "P05", clause: "at-rest"}}, outcome: stale},
}

func TestReport(t *testing.T) {
	content, err := os.ReadFile("testdata/list.md")
	if err != nil {
		t.Fatal(err)
	}
	sections, err := parseList(string(content))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := readResults(os.DirFS("testdata/results"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := collect(sections, append(tests, measurements...))
	if err != nil {
		t.Fatal(err)
	}
	printed := report{sections: sections, evidence: all, stale: []string{"operator, measured on 0123: changed since: kit"}, maxNames: 1}
	if printed.isHealthy() {
		t.Error("failed tests were taken for healthy")
	}
	var out bytes.Buffer
	if err := printed.write(&out); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.golden")
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.Bytes(), want)
	}
}

func TestUnknownClaimsAreAnError(t *testing.T) {
	sections := []section{{letter: "S", rows: []row{{id: "S01", clauses: []clause{{"one", "unit"}, {"two", "unit"}}}}}}
	for _, c := range []struct {
		test   test
		reason string
	}{
		{test{level: "unit", name: "TestS99_Typo", claims: claimsInGoTest("TestS99_Typo"), outcome: skipped}, `S99 in unit test "TestS99_Typo"`},
		{test{level: "unit", name: "x", claims: claimsInText("[S01/won]")}, `S01/won in unit test "x"`},
		{test{level: "unit", name: "x", claims: claimsInText("[S01/one; S01/two]")}, `[S01/one; S01/two] in unit test "x"`},
		{test{level: "unit", name: "x", claims: claimsInText("[S01/One]")}, `[S01/One] in unit test "x"`},
	} {
		if _, err := collect(sections, []test{c.test}); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("got %v, want %s", err, c.reason)
		}
	}
}

func TestVerdicts(t *testing.T) {
	three := row{id: "S08", clauses: []clause{{"critical-first", "e2e"}, {"sequential", "integration"}, {"parallel", "unit"}}}
	single := row{id: "S11", clauses: []clause{{"status-only", "integration"}}}
	number := row{id: "R11", clauses: []clause{{"working-set", "bench"}}}
	for _, c := range []struct {
		reason string
		row    row
		tests  []test
		want   verdict
	}{
		{"nothing was run", three, nil, open},
		{"one of three clauses", three, testsNamed(passed, "e2e", "[S08/critical-first]"), partly},
		{"two of three clauses", three, testsNamed(passed, "e2e", "[S08/critical-first, S08/parallel]"), partly},
		{"all three", three, testsNamed(passed, "e2e", "[S08/critical-first, S08/parallel, S08/sequential]"), proven},
		{"a level too low", three, testsNamed(passed, "integration", "[S08/critical-first] [S08/parallel] [S08/sequential]"), partly},
		{"a skipped test", three, testsNamed(skipped, "e2e", "[S08/critical-first] [S08/parallel] [S08/sequential]"), open},
		{"the row alone", three, testsNamed(passed, "e2e", "[S08]"), open},
		{"the row alone, failed", three, testsNamed(failed, "e2e", "[S08]"), broken},
		{"proven and failed", three, append(testsNamed(passed, "e2e", "[S08/critical-first, S08/parallel, S08/sequential]"),
			testsNamed(failed, "unit", "[S08/parallel]")...), broken},
		{"a single clause by its row", single, testsNamed(passed, "integration", "[S11]"), proven},
		{"a single clause, a level too low", single, testsNamed(passed, "unit", "[S11]"), open},
		{"a number by a test", number, testsNamed(passed, "e2e", "[R11]"), open},
		{"a number by a line", number, testsNamed(passed, bench, "[R11]"), proven},
		{"a number by one of two lines", number, append(testsNamed(passed, bench, "[R11]"), testsNamed(missed, bench, "[R11]")...), open},
		{"a stale number", number, testsNamed(stale, bench, "[R11]"), open},
		{"a test by a number", single, testsNamed(passed, bench, "[S11]"), open},
	} {
		all, err := collect([]section{{rows: []row{c.row}}}, c.tests)
		if err != nil {
			t.Fatal(err)
		}
		if got := all[c.row.id].verdictOf(c.row); got != c.want {
			t.Errorf("%s: %s, want %s", c.reason, got, c.want)
		}
	}
}

func testsNamed(became outcome, level, text string) []test {
	return []test{{level: level, name: text, claims: claimsInText(text), outcome: became}}
}

func TestClaimsInNames(t *testing.T) {
	rows := map[string]row{
		"S08": {clauses: []clause{{name: "critical"}, {name: "critical-first"}, {name: "json"}}},
		"S09": {clauses: []clause{{name: "monotone"}, {name: "critical"}}},
		"S11": {clauses: []clause{{name: "status-only"}}},
	}
	for name, want := range map[string][]string{
		"TestS08_CriticalFirstOfTwenty":   {"S08/critical-first"},
		"TestS08CriticalFirst":            {"S08/critical-first"},
		"TestS08_CriticalGoesFirst":       {"S08/critical"},
		"TestS08_Criticality":             {"S08"},
		"TestS08_JSONLines":               {"S08/json"},
		"TestS08":                         {"S08"},
		"TestS08_S09_CriticalBoth":        {"S08/critical", "S09/critical"},
		"FuzzS09_Monotone":                {"S09/monotone"},
		"TestS11_Anything":                {"S11/status-only"},
		"[S08/critical-first]_text":       {"S08/critical-first"},
		"[S08/critical,_S09/monotone] x":  {"S08/critical", "S09/monotone"},
		"[S08/critical] and [S09]":        {"S08/critical", "S09"},
		"TestV10Format":                   nil,
		"TestR404Handler":                 nil,
		"TestX509Chain":                   nil,
		"TestS08x":                        nil,
		"TestCriticalS08":                 nil,
		"S08 in passing":                  nil,
		"[X99] is for the list to refuse": {"X99"},
		"[S08/first_of_two]":              {"[S08/first_of_two]"},
	} {
		var got []string
		for _, one := range claimsInGoTest(name) {
			one.clause, _ = one.findIn(rows[one.id])
			got = append(got, one.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", name, got, want)
		}
	}
	if got := claimsInLabels([]string{"S01", "slow", "[S02]", "S03x"}); len(got) != 2 || got[0].id != "S01" || got[1].id != "S02" {
		t.Errorf("labels name %v", got)
	}
}

func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		events string
		want   outcome
	}{
		"pass":                {`{"Action":"pass","Test":"TestS01"}`, passed},
		"skip":                {`{"Action":"skip","Test":"TestS01"}`, skipped},
		"process died":        {`{"Action":"run","Test":"TestS01"}`, failed},
		"second run died":     {`{"Action":"pass","Test":"TestS01"}{"Action":"run","Test":"TestS01"}`, failed},
		"failed, then passed": {`{"Action":"fail","Test":"TestS01"}{"Action":"pass","Test":"TestS01"}`, failed},
		"one of two skipped": {`{"Action":"pass","Test":"TestS01"}{"Action":"skip","Test":"TestS01/a"}` +
			`{"Action":"pass","Test":"TestS01/b"}`, passed},
		"skipped two levels down": {`{"Action":"pass","Test":"TestS01"}{"Action":"pass","Test":"TestS01/a"}` +
			`{"Action":"skip","Test":"TestS01/a/b"}`, skipped},
		"a clause in a subtest": {`{"Action":"pass","Test":"TestX"}{"Action":"pass","Test":"TestX/[S08/critical-first]_text"}`, passed},
		"skipped under a clause": {`{"Action":"pass","Test":"TestX"}{"Action":"pass","Test":"TestX/[S08/critical-first]_text"}` +
			`{"Action":"skip","Test":"TestX/[S08/critical-first]_text/a"}`, skipped},
		"a clause written wrongly": {`{"Action":"pass","Test":"TestX"}{"Action":"pass","Test":"TestX/[S08/Critical]_text"}`, passed},
	} {
		t.Run(name, func(t *testing.T) {
			tests, err := readGoTest([]byte(c.events))
			if err != nil || len(tests) != 1 || tests[0].outcome != c.want {
				t.Errorf("got %+v, %v", tests, err)
			}
		})
	}
}

func TestGinkgoStates(t *testing.T) {
	for state, want := range map[string]outcome{
		"passed": passed, "skipped": skipped, "pending": skipped,
		"failed": failed, "panicked": failed, "timedout": failed, "interrupted": failed, "aborted": failed,
	} {
		if got := (spec{State: state}).outcome(); got != want {
			t.Errorf("%s counts as %s, want %s", state, got, want)
		}
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	for reason, file := range map[string]struct{ name, content string }{
		`"smoke" is none of unit, integration`: {"smoke.json", ""},
		`"bench" is none of unit, integration`: {"bench-all.json", ""},
		"decode go test event":                 {"unit.json", "not json"},
		"decode ginkgo report":                 {"e2e-nodes.json", "[}"},
		`suite "nodes" was a dry run`:          {"e2e-nodes.json", `[{"SuiteDescription": "nodes", "SuiteConfig": {"DryRun": true}}]`},
	} {
		_, err := readResults(fstest.MapFS{file.name: {Data: []byte(file.content)}})
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want %q", file.name, err, reason)
		}
	}
	for reason, list := range map[string]string{
		"no id found":                 "# Nothing",
		"not under a heading":         "| S01 | x | y | a@unit |",
		"S01: it is there twice":      "## S: x\n| S01 | x | y | a@unit |\n| S01 | x | y | a@unit |",
		"P01: it is not under a head": "## S: x\n| P01 | x | y | a@unit |",
		"it has 2 columns":            "## S: x\n| S01 | x | y |",
		"it has no clauses":           "## S: x\n| S01 | x | y | |",
		`clause "a" is not name@le`:   "## S: x\n| S01 | x | y | a |",
		`clause "a@smoke" is not na`:  "## S: x\n| S01 | x | y | a@smoke |",
		`clause "A@unit" is not nam`:  "## S: x\n| S01 | x | y | A@unit |",
		`clause "a" is there twice`:   "## S: x\n| S01 | x | y | a@unit a@e2e |",
	} {
		if _, err := parseList(list); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: got %v, want %q", list, err, reason)
		}
	}
}
