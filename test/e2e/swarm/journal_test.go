package swarm

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A journalEntry is a line of an agent's journal (event, uid, epoch, outcome) or of its code's log (event, key, pid).
type journalEntry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Agent   string    `json:"agent"`
	Task    string    `json:"task"`
	UID     string    `json:"uid"`
	Key     string    `json:"key"`
	PID     int       `json:"pid"`
	Epoch   int64     `json:"epoch"`
	Outcome string    `json:"outcome"`
	Fenced  bool      `json:"fenced"`
}

// A run is one process that worked on a task, from its first line to its last.
type run struct {
	task, agent string
	start, end  time.Time
}

func (r run) String() string {
	return fmt.Sprintf("%s on %s from %s to %s", r.task, r.agent, r.start.Format("05.000"), r.end.Format("05.000"))
}

// A freeze is when an agent was frozen: what it recorded after it woke does not prove that it worked in between.
type freeze struct {
	agent      string
	start, end time.Time
}

// journals are all lines of all agents of a swarm, by kind.
type journals struct {
	agents []journalEntry // their own start and finish
	code   []journalEntry // written by the code
}

// readJournals reads the journals of all agents. They lie on volumes, so that they outlive pods.
func readJournals(ctx context.Context, swarm string) journals {
	GinkgoHelper()
	list := &v1alpha1.AgentList{}
	Expect(api.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelSwarm: swarm})).To(Succeed())
	var result journals
	for _, agent := range list.Items {
		result.agents = append(result.agents, read(ctx, agent.Name, "journal.jsonl")...)
		result.code = append(result.code, read(ctx, agent.Name, "work.jsonl")...)
	}
	byTime := func(a, b journalEntry) int { return a.Time.Compare(b.Time) }
	slices.SortStableFunc(result.agents, byTime)
	slices.SortStableFunc(result.code, byTime)
	return result
}

func read(ctx context.Context, agent, file string) []journalEntry {
	GinkgoHelper()
	var text string
	Eventually(func() (err error) {
		text, err = kubectl(ctx, "exec", "--namespace", namespace, agent, "--container", "agent", "--", "/probe", "cat", "/var/lib/swarm/"+file)
		if err != nil && strings.Contains(err.Error(), "no such file") {
			text, err = "", nil // it never had an attempt
		}
		return err
	}).WithContext(ctx).Should(Succeed())
	var lines []journalEntry
	scanner := bufio.NewScanner(strings.NewReader(text))
	for scanner.Scan() {
		var parsed journalEntry
		if json.Unmarshal(scanner.Bytes(), &parsed) == nil { // a line may have been cut by a kill
			lines = append(lines, parsed)
		}
	}
	return lines
}

// processRuns returns the processes that really worked, by task and start.
func (w journals) processRuns(freezes ...freeze) map[string][]*run {
	type process struct {
		key, agent string
		pid        int
	}
	openRuns, runsByTask := map[process]*run{}, map[string][]*run{}
	for _, entry := range w.code {
		id := process{entry.Key, entry.Agent, entry.PID}
		if openRuns[id] == nil || entry.Event == "start" { // a process in the next pod may have the same PID
			openRuns[id] = &run{task: entry.Task, agent: entry.Agent, start: entry.Time, end: entry.Time}
			runsByTask[id.key] = append(runsByTask[id.key], openRuns[id])
		}
		if !wokeFromFreeze(entry, openRuns[id], freezes) {
			openRuns[id].end = entry.Time
		}
	}
	return runsByTask
}

// wokeFromFreeze reports whether a line was written by a process that woke from being frozen. It may write one more line before its agent
// ends it.
func wokeFromFreeze(said journalEntry, r *run, except []freeze) bool {
	return slices.ContainsFunc(except, func(age freeze) bool {
		return age.agent == said.Agent && r.start.Before(age.start) && said.Time.After(age.start) && said.Time.Before(age.end.Add(time.Second))
	})
}

// expectExactlyOnce checks the promise: no two attempts at a task ran at the same time, epochs only grew, and the accepted result is that
// of an attempt that its agent saw succeed.
func expectExactlyOnce(ctx context.Context, swarm string, tasks []string, except ...freeze) {
	GinkgoHelper()
	journals := readJournals(ctx, swarm)
	for _, runs := range journals.processRuns(except...) {
		slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.start.UnixNano(), b.start.UnixNano()) })
		for n := 1; n < len(runs); n++ {
			Expect(runs[n].start.Before(runs[n-1].end)).To(BeFalse(), "two attempts at once: %s, %s", runs[n-1], runs[n])
		}
	}
	epochs := map[string]int64{}
	for _, entry := range journals.agents {
		if entry.Event == "start" {
			Expect(entry.Epoch).To(BeNumerically(">", epochs[entry.UID]), "epochs of %s must grow", entry.Task)
			epochs[entry.UID] = entry.Epoch
		}
	}
	for _, name := range tasks {
		finished := taskNamed(ctx, name)
		Expect(finished.Status.Phase).To(Equal(v1alpha1.TaskCompleted), name)
		Expect(slices.ContainsFunc(journals.agents, func(entry journalEntry) bool {
			return entry.UID == string(finished.UID) && entry.Epoch == finished.Status.Epoch && entry.Event == "finish" &&
				entry.Outcome == "succeeded"
		})).To(BeTrue(), "the result of %s was taken from an attempt that no agent saw succeed", name)
	}
}
