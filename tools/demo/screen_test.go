package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var rewrite = flag.Bool("rewrite", false, "write what is seen into testdata")

// golden compares with a readable file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is otherwise (go test -rewrite):\n%s", name, got)
	}
}

func text(lines []line) string {
	var all strings.Builder
	for _, each := range lines {
		all.WriteString(each.text() + "\n")
	}
	return all.String()
}

// beginning is a swarm whose agents are still to come.
func beginning() demoState {
	return demoState{
		elapsed: 1234 * time.Millisecond,
		swarm: swarm{
			Name: "research", Phase: "Initializing",
			Types: []agentType{{"coordinator", 2, 1}, {"researcher", 2, 0}, {"analyst", 2, 2}},
			Conditions: []condition{
				{Type: "Ready", Status: "False", Reason: "Initializing", Message: "3 of 6 agents are ready for work, 3 have a ready pod"},
				{Type: "Degraded", Status: "True", Reason: "AgentsFailing",
					Message: "1 of 6 agents do not get up; research-researcher-0: image not found"},
			},
		},
		tasks: []task{
			{Name: "plan-leases", Priority: "critical", Phase: "Pending", Reason: "NoFreeSlot",
				Message: "all slots of the 2 agents that are of type coordinator are taken"},
			{Name: "search-leases", Priority: "high", Phase: "Pending"},
		},
	}
}

func middle() demoState {
	return demoState{
		elapsed: 7 * time.Second,
		swarm: swarm{
			Name: "research", Phase: "Running",
			Types:      []agentType{{"coordinator", 2, 2}, {"researcher", 2, 2}, {"analyst", 2, 2}},
			Conditions: []condition{{Type: "Ready", Status: "True", Reason: "Available", Message: "all 6 agents are ready for work"}},
		},
		tasks: []task{
			{Name: "plan-leases", Priority: "critical", Phase: "Completed", Agent: "research-coordinator-1", Progress: 100, Attempt: 1},
			{Name: "search-leases", Priority: "high", Phase: "Running", Agent: "research-researcher-0", Progress: 35, Attempt: 1,
				Message: "read fencing"},
			{Name: "search-gossip", Priority: "medium", Phase: "Running", Agent: "research-researcher-1", Attempt: 2},
			{Name: "search-ants", Priority: "low", Phase: "Pending", Reason: "NoFreeSlot",
				Message: "all slots of the 2 agents that are of type researcher are taken"},
			{Name: "count-queues", Priority: "medium", Phase: "Failed", Reason: "BadInput", Message: "steps is 0: write 1 to 1000"},
		},
	}
}

func ending() demoState {
	s := middle()
	s.elapsed = 15 * time.Second
	for n := range s.tasks {
		s.tasks[n].Phase, s.tasks[n].Progress, s.tasks[n].Reason, s.tasks[n].Message = "Completed", 100, "", ""
		s.tasks[n].Agent = "research-researcher-0"
	}
	s.tasks[1].Result = json.RawMessage(`{"topic":"leases","findings":[{"note":"lease","says":"A lease is a lock that expires."}]}`)
	return s
}

func TestScreens(t *testing.T) {
	golden(t, "nothing.txt", text(screen(demoState{swarm: swarm{Name: "research"}, tasks: []task{{Name: "plan-leases", Phase: "Pending"}}},
		120)))
	golden(t, "beginning.txt", text(screen(beginning(), 160)))
	golden(t, "middle.txt", text(screen(middle(), 120)))
	golden(t, "narrow.txt", text(screen(middle(), 60)))
	lost := middle()
	lost.connectionError = "the cluster does not answer: connection refused"
	golden(t, "lost.txt", text(screen(lost, 120)))
}

func TestNoLineIsWiderThanTheTerminal(t *testing.T) {
	for width := 1; width < 130; width++ {
		for _, each := range screen(middle(), width) {
			if size := utf8.RuneCountInString(each.text()); size > width {
				t.Errorf("%d columns in %d: %q", size, width, each.text())
			}
		}
	}
}

func TestFramesAreDrawnOverEachOther(t *testing.T) {
	p := painter{colours: true}
	first := p.frame(screen(beginning(), 120), 24)
	second := p.frame(screen(middle(), 120), 24)
	if strings.Contains(first, "\x1b[6A") || !strings.HasPrefix(second, "\r\x1b[6A") || !strings.HasSuffix(second, clearBelow) {
		t.Errorf("first %q second %q", first, second)
	}
	golden(t, "frame.ansi", second)
}

func TestAFrameFitsIntoALowTerminal(t *testing.T) {
	p := painter{}
	if frame := p.frame(screen(middle(), 80), 5); strings.Count(frame, "\n") != 4 || p.drawn != 4 {
		t.Errorf("%d lines: %q", p.drawn, frame)
	}
}

func TestLogShowsOnlyChanges(t *testing.T) {
	golden(t, "log.txt", strings.Join(append(changes(demoState{}, beginning()), changes(beginning(), middle())...), "\n")+"\n")
	if again := changes(middle(), middle()); len(again) != 0 {
		t.Errorf("nothing happened, and it says %q", again)
	}
}

func TestSummary(t *testing.T) {
	golden(t, "summary.txt", text(summary(ending(), 7400*time.Millisecond, hints{kubectl: "bin/devcluster kubectl", down: "make demo-down"})))
}

func TestPicture(t *testing.T) {
	lines := append(screen(middle(), pictureWidth), line{{`<&> "quoted"`, plain}})
	golden(t, "picture.svg", picture(lines, "a <test>"))
}

func TestVerdictNamesWhatDidNotComplete(t *testing.T) {
	if err := checkCompleted(ending()); err != nil {
		t.Error(err)
	}
	err := checkCompleted(middle())
	if err == nil || !strings.HasPrefix(err.Error(), "4 of 5 tasks did not complete") ||
		!strings.Contains(err.Error(), "count-queues is Failed: BadInput: steps is 0") {
		t.Errorf("got %v", err)
	}
}
