package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

var coder = link.Agent{Namespace: "default", Name: "research-coder-0"}

// A testAgent is one agent, a network, and an operator.
type testAgent struct {
	*linktest.Operator
	network   *linktest.Network
	config    agent.Config
	aborted   chan string
	stopAgent func() error
}

// newTestAgent returns a test agent that does not run yet.
func newTestAgent(t *testing.T, options ...func(*link.Config)) *testAgent {
	t.Helper()
	operator := linktest.Start(t, linktest.NewCA(t), options...)
	a := &testAgent{Operator: operator, network: linktest.NewNetwork(t, operator.Address), aborted: make(chan string, 16)}
	dir := t.TempDir()
	a.config = agent.Config{
		Namespace: coder.Namespace, Swarm: "research", Agent: coder.Name, Slots: 2,
		Addresses: []string{a.network.Address}, ServerName: linktest.ServerName,
		TokenFile: linktest.WriteFile(t, "token", []byte(coder.String()+"\n")), CAFile: operator.CA.File(t),
		Grace: 200 * time.Millisecond, StateDir: dir, RuntimeDir: dir, Journal: filepath.Join(dir, "journal"),
		Log:   slog.New(slog.NewTextHandler(t.Output(), nil)),
		Abort: func(reason string) { a.aborted <- reason },
	}
	return a
}

// start starts the agent, which stops when the test ends.
func (a *testAgent) start(t *testing.T, handler agent.Handler) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var result error
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		result = agent.RunWith(ctx, a.config, handler)
	}()
	a.stopAgent = func() error {
		cancel()
		<-stopped
		return result
	}
	t.Cleanup(func() {
		a.network.Thaw()
		cancel()
		a.acknowledgeUntil(stopped)
		if result != nil {
			t.Errorf("agent: %v", result)
		}
	})
}

// startScript starts an agent whose program is a bash script.
func startScript(t *testing.T, text string, options ...func(*link.Config)) *testAgent {
	t.Helper()
	a := newTestAgent(t, options...)
	a.start(t, a.scriptHandler(t, text))
	a.AwaitCredit(t, 2)
	return a
}

func (a *testAgent) scriptHandler(t *testing.T, text string) agent.Handler {
	t.Helper()
	handler, err := agent.Command(a.config.RuntimeDir, "bash", "-c", text)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// acknowledgeUntil acknowledges all results, including those that the agent sends only after it has reconnected, so that a stopping agent
// does not wait.
func (a *testAgent) acknowledgeUntil(stopped <-chan struct{}) {
	for {
		a.acknowledgeAll()
		select {
		case <-stopped:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// acknowledgeAll acknowledges all results that the operator knows.
func (a *testAgent) acknowledgeAll() {
	for _, event := range a.Events() {
		if result := event.Message.GetResult(); result != nil {
			_ = a.Send(coder, linktest.Acknowledge(result.GetAttempt()))
		}
		for _, result := range event.Hello.GetUnacknowledged() {
			_ = a.Send(coder, linktest.Acknowledge(result.GetAttempt()))
		}
	}
}

// send sends a message to the agent.
func (a *testAgent) send(t *testing.T, message *linkv1.OperatorMessage) {
	t.Helper()
	if err := a.Send(coder, message); err != nil {
		t.Fatalf("send: %v", err)
	}
}

// runTask assigns an attempt and returns its result.
func (a *testAgent) runTask(t *testing.T, payload string) *linkv1.Result {
	t.Helper()
	a.send(t, linktest.Assign(linktest.Attempt("t", 1), payload))
	return a.AwaitResult(t, 1, 1)
}

type journalEntry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	UID     string    `json:"uid"`
	Item    *int32    `json:"item"`
	Attempt int32     `json:"attempt"`
	Epoch   int64     `json:"epoch"`
	Outcome string    `json:"outcome"`
	Fenced  bool      `json:"fenced"`
}

// awaitJournal reads the starts and finishes in the agent's journal, once it has this many lines of them. The agent does not wait until
// they are written.
func (a *testAgent) awaitJournal(t *testing.T, lines int) (entries []journalEntry) {
	t.Helper()
	linktest.Eventually(t, "the journal has "+strconv.Itoa(lines)+" lines", func() bool {
		entries = slices.DeleteFunc(a.readJournal(t), isAcknowledgement)
		return len(entries) >= lines
	})
	return entries
}

func isAcknowledgement(entry journalEntry) bool { return entry.Event == "acknowledge" }

func (a *testAgent) readJournal(t *testing.T) []journalEntry {
	t.Helper()
	file, err := os.Open(a.config.Journal)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var entries []journalEntry
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var entry journalEntry
		if err := json.Unmarshal(scanner.Bytes(), &entry); err != nil {
			t.Fatalf("journal line %q: %v", scanner.Text(), err)
		}
		entries = append(entries, entry)
	}
	return entries
}

// readWords waits for a file that a script writes into its state folder, and returns its words.
func (a *testAgent) readWords(t *testing.T, name string) []string {
	t.Helper()
	var content []byte
	linktest.Eventually(t, "file "+name, func() bool {
		content, _ = os.ReadFile(filepath.Join(a.config.StateDir, name))
		return strings.HasSuffix(string(content), "\n")
	})
	return strings.Fields(string(content))
}

// assertGone fails if one of the processes is alive. A zombie that has not been reaped yet is dead.
func assertGone(t *testing.T, pids []string) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("no processes are named")
	}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		linktest.Eventually(t, "process "+text+" is gone", func() bool { return !isAlive(pid) })
	}
}

func isAlive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(status), ") Z ")
}
