package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// suite and spec are the few fields of Ginkgo's report that matter here.
type suite struct {
	SuiteDescription string
	SuiteLabels      []string
	SuiteConfig      struct{ DryRun bool }
	SpecReports      []spec
}

type spec struct {
	ContainerHierarchyTexts  []string
	ContainerHierarchyLabels [][]string
	LeafNodeType             string
	LeafNodeText             string
	LeafNodeLabels           []string
	State                    string
}

func readGinkgo(content []byte) ([]test, error) {
	var suites []suite
	if err := json.Unmarshal(content, &suites); err != nil {
		return nil, fmt.Errorf("decode ginkgo report: %w", err)
	}
	var tests []test
	for _, s := range suites {
		if s.SuiteConfig.DryRun {
			return nil, fmt.Errorf("suite %q was a dry run, which says that every spec has passed and runs none", s.SuiteDescription)
		}
		for _, sp := range s.SpecReports {
			if claims := sp.claims(s); sp.LeafNodeType == "It" && len(claims) > 0 {
				tests = append(tests, test{name: sp.name(), claims: claims, outcome: sp.outcome()})
			}
		}
	}
	return tests, nil
}

func (s spec) name() string {
	return strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
}

func (s spec) claims(parent suite) []claim {
	claims := append(claimsInText(parent.SuiteDescription), claimsInLabels(parent.SuiteLabels)...)
	claims = append(claims, claimsInText(s.name())...)
	for _, labels := range append(s.ContainerHierarchyLabels, s.LeafNodeLabels) {
		claims = append(claims, claimsInLabels(labels)...)
	}
	return claims
}

// outcome treats what Ginkgo calls panicked, interrupted, aborted or timed out as failed.
func (s spec) outcome() outcome {
	switch s.State {
	case "passed":
		return passed
	case "skipped", "pending":
		return skipped
	default:
		return failed
	}
}
