package main

import (
	"strings"
	"testing"
)

const measuredProgram = `package engine

import "fmt"

func plan(jobs, workers int) string {
	return fmt.Sprint(map[string]int{"jobs": jobs, "workers": workers}, func() int { return jobs })
}
`

// laidOut is the same program with other comments and line breaks.
const laidOut = `// Package engine plans.
package engine

import "fmt"

// plan plans.
func plan(
	jobs, workers int,
) string {
	return fmt.Sprint(
		map[string]int{
			"jobs":    jobs, // all of them
			"workers": workers,
		},
		func() int {
			return jobs
		},
	)
}
`

func TestNumbersOfTheSameProgramAreNotStale(t *testing.T) {
	for change, c := range map[string]struct {
		files map[string]string
		stale bool
	}{
		"nothing":             {},
		"layout and comments": {files: map[string]string{"engine.go": laidOut}},
		"a test":              {files: map[string]string{"engine_test.go": "package engine\n", "testdata/plan.golden": "1\n"}},
		"a constant":          {files: map[string]string{"engine.go": strings.Replace(measuredProgram, "jobs }", "jobs + 1 }", 1)}, stale: true},
		"a directive":         {files: map[string]string{"engine.go": "//go:build linux\n\n" + measuredProgram}, stale: true},
		"another file":        {files: map[string]string{"limit.go": "package engine\n"}, stale: true},
		"an embedded file":    {files: map[string]string{"page.html": "<p>\n"}, stale: true},
	} {
		t.Run(change, func(t *testing.T) {
			r := newTree(t)
			r.writeFile("engine/engine.go", measuredProgram)
			r.commit()
			r.measure(r.engineRun())
			for name, content := range c.files {
				r.writeFile("engine/"+name, content)
			}
			r.commit()
			r.rerunTests()
			healthy, printed, err := r.run()
			if err != nil || !healthy || strings.Contains(printed, "changed since: engine") != c.stale {
				t.Errorf("healthy %t, error %v, want stale %t, got\n%s", healthy, err, c.stale, printed)
			}
		})
	}
}
