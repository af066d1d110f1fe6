package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// shownTask is the task whose result is shown.
const shownTask = "search-leases"

// hints are the commands that go on from here.
type hints struct {
	kubectl string // kubectl for this cluster
	down    string // what removes the demo
}

// summary is the output at the end.
func summary(s demoState, first time.Duration, next hints) []line {
	lines := append([]line{nil, times(s, first), nil}, result(s)...)
	lines = append(lines, line{{"Try next:", bold}})
	for _, command := range next.commands(s) {
		lines = append(lines, line{{"  " + command, plain}})
	}
	return append(lines, line{{"And in the end: " + next.down, plain}})
}

func times(s demoState, first time.Duration) line {
	return line{{fmt.Sprintf("First task done after %s, all %d after %s.", seconds(first), len(s.tasks), seconds(s.elapsed)), bold}}
}

func (h hints) commands(s demoState) []string {
	in := h.kubectl + " -n " + namespace
	return []string{
		in + " get swarms,agents,tasks",
		in + " get task " + shownTask + " -o yaml",
		in + " scale swarm/" + s.swarm.Name + " --replicas=9",
	}
}

// result is what one task has found, in full.
func result(s demoState) []line {
	for _, task := range s.tasks {
		if task.Name != shownTask || len(task.Result) == 0 {
			continue
		}
		lines := []line{{{"Result of task " + task.Name + ":", bold}}}
		for text := range strings.Lines(pretty(task.Result)) {
			lines = append(lines, line{{strings.TrimRight(text, "\n"), plain}})
		}
		return append(lines, nil)
	}
	return nil
}

func pretty(raw json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return string(raw)
	}
	return out.String()
}

// checkCompleted is an error when a task did not complete.
func checkCompleted(s demoState) error {
	var failed []string
	for _, task := range s.tasks {
		if task.Phase != "Completed" {
			failed = append(failed, strings.TrimSuffix(task.Name+" is "+task.Phase+": "+taskReason(task), ": "))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d tasks did not complete: %s", len(failed), len(s.tasks), strings.Join(failed, "; "))
}
