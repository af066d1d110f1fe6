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

func TestReport(t *testing.T) {
	var out bytes.Buffer
	healthy, err := run(&out, []string{"--list", "testdata/list.md", "--results", "testdata/results", "--tests", "1"})
	if err != nil {
		t.Fatal(err)
	}
	if healthy {
		t.Error("failed ids were taken for healthy")
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

func TestNoResultsIsNoFailure(t *testing.T) {
	var out bytes.Buffer
	healthy, err := run(&out, []string{"--list", "testdata/list.md", "--results", "testdata/none"})
	if err != nil || !healthy {
		t.Fatalf("healthy %t, error %v", healthy, err)
	}
	if !strings.Contains(out.String(), "all: 0 of 10 proven") {
		t.Errorf("got\n%s", out.String())
	}
}

// The real list must be readable, and its letters must be those that count in names of Go functions.
func TestOurOwnList(t *testing.T) {
	content, err := os.ReadFile("../../docs/acceptance.md")
	if err != nil {
		t.Fatal(err)
	}
	chapters, err := parseList(string(content))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, c := range chapters {
		total += len(c.lines)
		for _, l := range c.lines {
			if got := idsInFunction("Test" + l.id + "_Something"); !slices.Equal(got, []string{l.id}) {
				t.Errorf("TestX of %s names %q", l.id, got)
			}
		}
	}
	if len(chapters) != 5 || total != strings.Count(string(content), "\n| ")-len(chapters) {
		t.Errorf("read %d ids in %d chapters", total, len(chapters))
	}
}

func TestUnknownIDIsAnError(t *testing.T) {
	chapters := []chapter{{letter: "S", lines: []line{{id: "S01"}}}}
	tests := []test{{level: "unit", name: "TestS99_Typo", ids: []string{"S99"}, outcome: skipped}}
	_, err := judge(&bytes.Buffer{}, chapters, tests, 0)
	if err == nil || !strings.Contains(err.Error(), `S99 in unit test "TestS99_Typo"`) {
		t.Errorf("got %v", err)
	}
}

func TestIDsInNames(t *testing.T) {
	for name, want := range map[string][]string{
		"TestS08_Critical":                {"S08"},
		"TestS08Critical":                 {"S08"},
		"TestS08":                         {"S08"},
		"TestS08_S09_Both":                {"S08", "S09"},
		"BenchmarkK03_Queue":              {"K03"},
		"[S08]_critical_first":            {"S08"},
		"[S08,_P01] both":                 {"P01", "S08"},
		"TestV10Format":                   nil,
		"TestR404Handler":                 nil,
		"TestS08x":                        nil,
		"TestCriticalS08":                 nil,
		"S08 in passing":                  nil,
		"[X99] is for the list to refuse": {"X99"},
	} {
		if got := unique(idsInFunction(name)); !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", name, got, want)
		}
	}
	if got := idsInLabels([]string{"S01", "slow", "[S02]", "S03x"}); !slices.Equal(got, []string{"S01", "S02"}) {
		t.Errorf("labels name %q", got)
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
			t.Errorf("%s counts as %d, want %d", state, got, want)
		}
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	for reason, file := range map[string]struct{ name, content string }{
		`"smoke" is none of unit, integration`: {"smoke.json", ""},
		"decode go test event":                 {"unit.json", "not json"},
		"decode ginkgo report":                 {"e2e-nodes.json", "[}"},
	} {
		_, err := readResults(fstest.MapFS{file.name: {Data: []byte(file.content)}})
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want %q", file.name, err, reason)
		}
	}
	for reason, list := range map[string]string{
		"no id found":                 "# Nothing",
		"under no heading":            "| S01 | x |",
		"S01: it is there twice":      "## S: x\n| S01 | x |\n| S01 | y |",
		"P01: it stands under no hea": "## S: x\n| P01 | x |",
	} {
		if _, err := parseList(list); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: got %v, want %q", list, err, reason)
		}
	}
}
