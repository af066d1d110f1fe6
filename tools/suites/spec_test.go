package main

import (
	"strings"
	"testing"
)

func TestSpecsAreCountedByState(t *testing.T) {
	for state, want := range map[string]counts{
		"passed": {passed: 1}, "skipped": {skipped: 1}, "pending": {skipped: 1},
		"failed": {failed: 1}, "panicked": {failed: 1}, "timedout": {failed: 1}, "interrupted": {failed: 1}, "aborted": {failed: 1},
	} {
		if got := (spec{LeafNodeType: "It", State: state}).counts(); got != want {
			t.Errorf("%s: got %v", state, got)
		}
	}
	if got := (spec{LeafNodeType: "BeforeSuite", State: "passed"}).counts(); got != (counts{}) {
		t.Errorf("a node around specs that passed: got %v", got)
	}
	if got := (spec{LeafNodeType: "AfterSuite", State: "failed"}).counts(); got != (counts{failed: 1}) {
		t.Errorf("a node around specs that failed: got %v", got)
	}
}

func TestExplanationIsShort(t *testing.T) {
	specs, err := decodeReport([]byte(`[{"SpecReports": [
		{"LeafNodeType": "It", "LeafNodeText": "goes well", "State": "passed", "CapturedGinkgoWriterOutput": "not of interest"},
		{"LeafNodeType": "It", "ContainerHierarchyTexts": ["a pool", "at night"], "LeafNodeText": "converges", "State": "failed",
		 "CapturedGinkgoWriterOutput": "` + strings.Repeat("x", longest) + `last words\n",
		 "Failure": {"Message": "Expected\n  1\nto equal\n  2", "Location": {"FileName": "pool_test.go", "LineNumber": 7}}},
		{"LeafNodeType": "BeforeSuite", "State": "failed", "Failure": {"Message": "` + strings.Repeat("é", longest) + `"}}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, s := range specs {
		s.explain(&out)
	}
	want := "FAILED (failed): a pool at night converges\n  pool_test.go:7\nExpected\n  1\nto equal\n  2\nthe end of its output:\n" +
		strings.Repeat("x", longest-len("last words")) + "last words\nFAILED (failed): BeforeSuite\n  :0\n" + strings.Repeat("é", longest/2) +
		"\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if _, err := decodeReport([]byte("[}")); err == nil {
		t.Error("accepts what is no report")
	}
}

func TestGoTestsAreCountedWithoutSubtests(t *testing.T) {
	got, err := countEvents([]byte(`{"Action":"run","Test":"TestA"}{"Action":"pass","Test":"TestA/b"}{"Action":"pass","Test":"TestA"}
		{"Action":"fail","Test":"TestC"}{"Action":"skip","Test":"TestD"}{"Action":"pass"}`))
	if want := (counts{1, 1, 1}); err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := countEvents([]byte("no json")); err == nil {
		t.Error("accepts what are no events")
	}
}
