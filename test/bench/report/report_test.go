package report

import (
	"path/filepath"
	"slices"
	"testing"
)

func measures(t *testing.T, file string) (names []string) {
	t.Helper()
	lines, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		names = append(names, line.Suite+": "+line.Measure)
	}
	return names
}

func TestASuiteReplacesItsOwnLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench", "results.json")
	for _, run := range []struct{ suite, measure string }{{"one", "old"}, {"two", "other"}, {"one", "new"}} {
		report := New(run.suite)
		report.Time(run.measure, 1, 2, "ms")
		if err := report.Close(file); err != nil {
			t.Fatal(err)
		}
	}
	if got := measures(t, file); !slices.Equal(got, []string{"two: other", "one: new"}) {
		t.Errorf("got %q", got)
	}
}

func TestOnlyCountsFail(t *testing.T) {
	for _, c := range []struct {
		reason string
		line   Line
		met    bool
		fails  bool
	}{
		{"a count at its target", Line{Ours: 1, Target: 1, Counted: true}, true, false},
		{"a count above it", Line{Ours: 2, Target: 1, Counted: true}, false, true},
		{"a time above it", Line{Ours: 2, Target: 1}, false, false},
		{"a ratio below what is wanted", Line{Ours: 7, Target: 8, AtLeast: true, Counted: true}, false, true},
		{"a ratio above it", Line{Ours: 9, Target: 8, AtLeast: true, Counted: true, Peer: &Peer{Name: "peer", Value: 1}}, true, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "results.json")
			report := New("suite")
			report.Add(c.line)
			if err := report.Close(file); (err != nil) != c.fails {
				t.Errorf("got %v", err)
			}
			if lines, err := read(file); err != nil || len(lines) != 1 || lines[0].Met != c.met {
				t.Errorf("wrote %v, %v", lines, err)
			}
		})
	}
}
