package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// runMethod runs the program on a payload.
func runMethod(t *testing.T, method, payload string) answer {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), attempt{agent: "research-researcher-0", progress: io.Discard}, []string{method}, strings.NewReader(payload),
		&out); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 4<<10 {
		t.Errorf("a result of %d bytes does not fit into a Task", out.Len())
	}
	var result answer
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestSearchRanksTheBestSentenceFirst(t *testing.T) {
	result := runMethod(t, "search", `{"topic": "quorum of scouts", "seconds": 0}`)
	if result.Agent != "research-researcher-0" || len(result.Findings) != maxFindings {
		t.Fatalf("found %+v", result)
	}
	if first := result.Findings[0]; first.Note != "bees" || !strings.Contains(first.Sentence, "a quorum is sensed") {
		t.Errorf("first is %+v", first)
	}
	if !slices.IsSortedFunc(result.Findings, func(a, b finding) int { return int(100 * (b.Score - a.Score)) }) {
		t.Errorf("scores %+v", result.Findings)
	}
}

func TestCountCountsSingularAndPlural(t *testing.T) {
	result := runMethod(t, "count", `{"topic": "leases", "seconds": 0}`)
	if want := []string{"fencing", "lease"}; result.Times != 6 || !slices.Equal(result.Notes, want) {
		t.Errorf("%d times in %q", result.Times, result.Notes)
	}
	if len(result.Neighbors) == 0 || result.Neighbors[0] != (wordCount{"holder", 3}) {
		t.Errorf("beside %+v", result.Neighbors)
	}
}

func TestPlanListsNeighboringWords(t *testing.T) {
	found := runMethod(t, "plan", `{"topic": "lease", "seconds": 0}`)
	if !slices.Contains(found.NextTopics, "holder") || slices.Contains(found.NextTopics, "lease") {
		t.Errorf("asks %q", found.NextTopics)
	}
}

func TestNothingFoundIsAnAnswer(t *testing.T) {
	for method := range methods {
		if found := runMethod(t, method, `{"topic": "volcanoes", "seconds": 0}`); found.Topic != "volcanoes" || found.Notes != nil ||
			found.Findings != nil {
			t.Errorf("%s found %+v", method, found)
		}
	}
}

func TestProgressEndsAt100AndNeverGoesBack(t *testing.T) {
	for _, steps := range []int{1, 7, 12, 40} {
		var progress bytes.Buffer
		payload := fmt.Sprintf(`{"topic": "ants", "steps": %d, "seconds": 0}`, steps)
		if err := run(t.Context(), attempt{progress: &progress}, []string{"count"}, strings.NewReader(payload), io.Discard); err != nil {
			t.Fatal(err)
		}
		lines, last := strings.Split(strings.TrimSpace(progress.String()), "\n"), 0
		for _, line := range lines {
			var percent int
			var message string
			if _, err := fmt.Sscan(line, &percent, &message); err != nil || percent < last {
				t.Errorf("line %q after %d: %v", line, last, err)
			}
			last = percent
		}
		if len(lines) != steps || last != 100 {
			t.Errorf("%d steps: %d lines up to %d", steps, len(lines), last)
		}
	}
}

func TestBadInputIsRefusedWithWhatToWrite(t *testing.T) {
	for payload, want := range map[string]string{
		`not json`:                         `{"topic": "leases", "steps": 20, "seconds": 3}`,
		`["leases"]`:                       `{"topic": "leases", "steps": 20, "seconds": 3}`,
		`{}`:                               "has no topic",
		`{"topic": "the"}`:                 "has no topic",
		`{"topic": "ants", "steps": 0}`:    "steps is 0: write 1 to 1000",
		`{"topic": "ants", "seconds": -1}`: "seconds is -1: write 0 to 600",
	} {
		err := run(t.Context(), attempt{progress: io.Discard}, []string{"search"}, strings.NewReader(payload), io.Discard)
		if err == nil || exitCode(err) != exitBadInput || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", payload, err, want)
		}
	}
}

func TestAnUnknownMethodIsAnError(t *testing.T) {
	err := run(t.Context(), attempt{progress: io.Discard}, []string{"guess"}, strings.NewReader(`{}`), io.Discard)
	if err == nil || exitCode(err) != 1 || !strings.Contains(err.Error(), "count, plan, search") {
		t.Errorf("got %v", err)
	}
}

func TestFlakyFailsTheFirstAttemptOnly(t *testing.T) {
	for number, fails := range map[string]bool{"1": true, "2": false, "": false} {
		payload := strings.NewReader(`{"topic": "ants", "seconds": 0, "flaky": true}`)
		err := run(t.Context(), attempt{number: number, progress: io.Discard}, []string{"count"}, payload, io.Discard)
		if (err != nil) != fails || (err != nil && exitCode(err) != exitRetry) {
			t.Errorf("attempt %q: %v", number, err)
		}
	}
}

func TestItStopsOnSignal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := run(ctx, attempt{progress: io.Discard}, []string{"count"}, strings.NewReader(`{"topic": "ants", "seconds": 60}`), io.Discard)
	if err == nil || exitCode(err) != exitRetry || time.Since(start) > 5*time.Second {
		t.Errorf("got %v after %s", err, time.Since(start))
	}
}
