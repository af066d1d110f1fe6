package main

import (
	"strings"
	"testing"
)

func TestShowNamesEveryFailureWithItsReason(t *testing.T) {
	var out strings.Builder
	err := show(&out, []byte(`[{"SpecReports": [
		{"LeafNodeType": "It", "LeafNodeText": "goes well", "State": "passed", "CapturedGinkgoWriterOutput": "not of interest"},
		{"LeafNodeType": "It", "ContainerHierarchyTexts": ["a cluster", "at night"], "LeafNodeText": "sleeps", "State": "failed",
		 "CapturedGinkgoWriterOutput": "`+strings.Repeat("x", longest)+`counting sheep\n",
		 "Failure": {"Message": "Expected\n  awake\nto equal\n  asleep", "Location": {"FileName": "night_test.go", "LineNumber": 7}}},
		{"LeafNodeType": "BeforeSuite", "State": "failed", "Failure": {"Message": "`+strings.Repeat("é", longest)+`", "Location": {"FileName": "suite_test.go", "LineNumber": 3}}}
	]}]`))
	if err != nil {
		t.Fatal(err)
	}
	want := "failed: a cluster at night sleeps\n  night_test.go:7\nExpected\n  awake\nto equal\n  asleep\nwhat it wrote last:\n" +
		strings.Repeat("x", longest-len("counting sheep")) + "counting sheep\n" +
		"failed: BeforeSuite\n  suite_test.go:3\n" + strings.Repeat("é", longest/2) + "\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestShowRefusesWhatIsNoReport(t *testing.T) {
	if err := show(&strings.Builder{}, []byte("[}")); err == nil || !strings.HasPrefix(err.Error(), "decode ginkgo report: ") {
		t.Errorf("got %v", err)
	}
}
