package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// longest is how much is shown of a message, from its beginning, and of other output, from its end.
const longest = 4000

// spec is the part of Ginkgo's JSON report that matters here.
type spec struct {
	ContainerHierarchyTexts    []string
	LeafNodeType               string
	LeafNodeText               string
	State                      string
	RunTime                    time.Duration
	CapturedGinkgoWriterOutput string
	Failure                    *failure
}

type failure struct {
	Message  string
	Location struct {
		FileName   string
		LineNumber int
	}
}

func decodeReport(content []byte) ([]spec, error) {
	var reports []struct{ SpecReports []spec }
	if err := json.Unmarshal(content, &reports); err != nil {
		return nil, fmt.Errorf("decode ginkgo report: %w", err)
	}
	var all []spec
	for _, report := range reports {
		all = append(all, report.SpecReports...)
	}
	return all, nil
}

// name is the full text of a spec, or the kind of a node that has none, such as BeforeSuite.
func (s spec) name() string {
	if text := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "); text != "" {
		return text
	}
	return s.LeafNodeType
}

// counts a spec once. Nodes around specs, such as BeforeSuite, count only when they fail.
func (s spec) counts() counts {
	switch {
	case s.State != "passed" && s.State != "skipped" && s.State != "pending":
		return counts{failed: 1}
	case s.LeafNodeType != "It":
		return counts{}
	case s.State == "passed":
		return counts{passed: 1}
	default:
		return counts{skipped: 1}
	}
}

// explain prints why a spec failed, once more: what it printed at the time is far above in the log.
func (s spec) explain(out io.Writer) {
	if s.counts().failed == 0 {
		return
	}
	fmt.Fprintf(out, "FAILED (%s): %s\n", s.State, s.name())
	if s.Failure != nil {
		fmt.Fprintf(out, "  %s:%d\n%s\n", s.Failure.Location.FileName, s.Failure.Location.LineNumber, head(s.Failure.Message))
	}
	if output := strings.TrimSpace(s.CapturedGinkgoWriterOutput); output != "" {
		fmt.Fprintf(out, "the end of its output:\n%s\n", tail(output))
	}
}

func head(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), longest)], "")
}

func tail(text string) string {
	return strings.ToValidUTF8(text[max(0, len(text)-longest):], "")
}
