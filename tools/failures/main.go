// Command failures says once more, at the end, why specs of a suite failed: what a long run has printed of them stands far
// above by then, and is not always kept. It reads what Ginkgo's --json-report wrote, and fails as the suite did.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// longest is how much is shown of a message, from its beginning, and of what a spec wrote, from its end.
const longest = 3000

// suite and spec are the few fields of Ginkgo's report that matter here.
type suite struct {
	SpecReports []spec
}

type spec struct {
	ContainerHierarchyTexts    []string
	LeafNodeType               string
	LeafNodeText               string
	CapturedGinkgoWriterOutput string
	Failure                    *struct {
		Message  string
		Location struct {
			FileName   string
			LineNumber int
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "failures: name one report: failures <file of ginkgo --json-report>")
		os.Exit(2)
	}
	content, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = show(os.Stdout, content)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "failures:", err)
	}
	os.Exit(1)
}

func show(out io.Writer, content []byte) error {
	var suites []suite
	if err := json.Unmarshal(content, &suites); err != nil {
		return fmt.Errorf("decode ginkgo report: %w", err)
	}
	for _, s := range suites {
		for _, sp := range s.SpecReports {
			if sp.Failure != nil && sp.Failure.Message != "" {
				sp.show(out)
			}
		}
	}
	return nil
}

func (s spec) show(out io.Writer) {
	name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
	if name == "" {
		name = s.LeafNodeType
	}
	fmt.Fprintf(out, "failed: %s\n  %s:%d\n%s\n", name, s.Failure.Location.FileName, s.Failure.Location.LineNumber, head(s.Failure.Message))
	if wrote := strings.TrimSpace(s.CapturedGinkgoWriterOutput); wrote != "" {
		fmt.Fprintf(out, "what it wrote last:\n%s\n", tail(wrote))
	}
}

func head(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), longest)], "")
}

func tail(text string) string {
	return strings.ToValidUTF8(text[max(0, len(text)-longest):], "")
}
