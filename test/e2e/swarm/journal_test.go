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

// A line is one of an agent's journal (event, uid, epoch, outcome) or of its code's testimony (event, key, pid).
type line struct {
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
	from, to    time.Time
}

func (r run) String() string {
	return fmt.Sprintf("%s on %s from %s to %s", r.task, r.agent, r.from.Format("05.000"), r.to.Format("05.000"))
}

// An ice age is when an agent was frozen: what it wrote down when it woke is no proof that it worked in between.
type iceAge struct {
	agent    string
	from, to time.Time
}

// witnesses are all lines of all agents of a swarm, by kind.
type witnesses struct {
	agents []line // their own start and finish
	code   []line // written by the code
}

// hear reads the journals of all agents. They lie on volumes, so that they outlive pods.
func hear(ctx context.Context, swarm string) witnesses {
	GinkgoHelper()
	list := &v1alpha1.AgentList{}
	Expect(api.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelSwarm: swarm})).To(Succeed())
	var heard witnesses
	for _, agent := range list.Items {
		heard.agents = append(heard.agents, read(ctx, agent.Name, "journal.jsonl")...)
		heard.code = append(heard.code, read(ctx, agent.Name, "work.jsonl")...)
	}
	byTime := func(a, b line) int { return a.Time.Compare(b.Time) }
	slices.SortStableFunc(heard.agents, byTime)
	slices.SortStableFunc(heard.code, byTime)
	return heard
}

func read(ctx context.Context, agent, file string) []line {
	GinkgoHelper()
	var text string
	Eventually(func() (err error) {
		text, err = kubectl(ctx, "exec", "--namespace", namespace, agent, "--container", "agent", "--", "/probe", "cat", "/var/lib/swarm/"+file)
		if err != nil && strings.Contains(err.Error(), "no such file") {
			text, err = "", nil // it never had anything to do
		}
		return err
	}).WithContext(ctx).Should(Succeed())
	var lines []line
	scanner := bufio.NewScanner(strings.NewReader(text))
	for scanner.Scan() {
		var parsed line
		if json.Unmarshal(scanner.Bytes(), &parsed) == nil { // a line may have been cut by a kill
			lines = append(lines, parsed)
		}
	}
	return lines
}

// runs are what really worked, by task in the order of their beginning.
func (w witnesses) runs(except ...iceAge) map[string][]*run {
	type process struct {
		key, agent string
		pid        int
	}
	open, all := map[process]*run{}, map[string][]*run{}
	for _, said := range w.code {
		id := process{said.Key, said.Agent, said.PID}
		if open[id] == nil || said.Event == "start" { // a process in the next pod may have the same PID
			open[id] = &run{task: said.Task, agent: said.Agent, from: said.Time, to: said.Time}
			all[id.key] = append(all[id.key], open[id])
		}
		if !thawed(said, open[id], except) {
			open[id].to = said.Time
		}
	}
	return all
}

// thawed reports whether a line was written by a process that woke from being frozen. It may write one more line before its agent ends it.
func thawed(said line, of *run, except []iceAge) bool {
	return slices.ContainsFunc(except, func(age iceAge) bool {
		return age.agent == said.Agent && of.from.Before(age.from) && said.Time.After(age.from) && said.Time.Before(age.to.Add(time.Second))
	})
}

// proveExactlyOnce checks what the promise is about: no two attempts of a task ran at the same time, epochs only grew, and the result
// that was taken is that of an attempt which its agent saw succeed.
func proveExactlyOnce(ctx context.Context, swarm string, tasks []string, except ...iceAge) {
	GinkgoHelper()
	heard := hear(ctx, swarm)
	for _, runs := range heard.runs(except...) {
		slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.from.UnixNano(), b.from.UnixNano()) })
		for n := 1; n < len(runs); n++ {
			Expect(runs[n].from.Before(runs[n-1].to)).To(BeFalse(), "two attempts at once: %s, %s", runs[n-1], runs[n])
		}
	}
	epochs := map[string]int64{}
	for _, said := range heard.agents {
		if said.Event == "start" {
			Expect(said.Epoch).To(BeNumerically(">", epochs[said.UID]), "epochs of %s must grow", said.Task)
			epochs[said.UID] = said.Epoch
		}
	}
	for _, name := range tasks {
		finished := taskNamed(ctx, name)
		Expect(finished.Status.Phase).To(Equal(v1alpha1.TaskCompleted), name)
		Expect(slices.ContainsFunc(heard.agents, func(said line) bool {
			return said.UID == string(finished.UID) && said.Epoch == finished.Status.Epoch && said.Event == "finish" && said.Outcome == "succeeded"
		})).To(BeTrue(), "the result of %s was taken from an attempt that no agent saw succeed", name)
	}
}
