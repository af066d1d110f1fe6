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

// A world is one agent, a network, and an operator.
type world struct {
	*linktest.Operator
	network *linktest.Network
	config  agent.Config
	aborted chan string
	stop    func() error
}

// begin prepares a world in which the agent does not run yet.
func begin(t *testing.T, change ...func(*link.Config)) *world {
	t.Helper()
	operator := linktest.Start(t, linktest.NewCA(t), change...)
	w := &world{Operator: operator, network: linktest.NewNetwork(t, operator.Address), aborted: make(chan string, 16)}
	folder := t.TempDir()
	w.config = agent.Config{
		Namespace: coder.Namespace, Swarm: "research", Agent: coder.Name, Slots: 2,
		Addresses: []string{w.network.Address}, ServerName: linktest.ServerName,
		TokenFile: linktest.WriteFile(t, "token", []byte(coder.String()+"\n")), CAFile: operator.CA.File(t),
		Grace: 200 * time.Millisecond, StateDir: folder, RuntimeDir: folder, Journal: filepath.Join(folder, "journal"),
		Log:   slog.New(slog.NewTextHandler(t.Output(), nil)),
		Abort: func(reason string) { w.aborted <- reason },
	}
	return w
}

// run starts the agent, which stops when the test ends.
func (w *world) run(t *testing.T, handler agent.Handler) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var result error
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		result = agent.RunWith(ctx, w.config, handler)
	}()
	w.stop = func() error {
		cancel()
		<-stopped
		return result
	}
	t.Cleanup(func() {
		w.network.Thaw()
		cancel()
		w.acknowledgeUntil(stopped)
		if result != nil {
			t.Errorf("agent: %v", result)
		}
	})
}

// script starts an agent whose program is a bash script.
func script(t *testing.T, text string, change ...func(*link.Config)) *world {
	t.Helper()
	w := begin(t, change...)
	w.run(t, w.bash(t, text))
	w.AwaitCredit(t, 2)
	return w
}

func (w *world) bash(t *testing.T, text string) agent.Handler {
	t.Helper()
	handler, err := agent.Command(w.config.RuntimeDir, "bash", "-c", text)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// acknowledgeUntil settles what is not settled, so that an agent that stops does not wait for it: also results that it only sends when it
// has connected again.
func (w *world) acknowledgeUntil(stopped <-chan struct{}) {
	for {
		w.acknowledgeAll()
		select {
		case <-stopped:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// acknowledgeAll settles what the operator knows of.
func (w *world) acknowledgeAll() {
	for _, event := range w.Events() {
		if result := event.Message.GetResult(); result != nil {
			_ = w.Send(coder, linktest.Acknowledge(result.GetAttempt()))
		}
		for _, result := range event.Hello.GetUnacknowledged() {
			_ = w.Send(coder, linktest.Acknowledge(result.GetAttempt()))
		}
	}
}

// give sends a message to the agent.
func (w *world) give(t *testing.T, message *linkv1.OperatorMessage) {
	t.Helper()
	if err := w.Send(coder, message); err != nil {
		t.Fatalf("send: %v", err)
	}
}

// perform gives an attempt and returns its result.
func (w *world) perform(t *testing.T, payload string) *linkv1.Result {
	t.Helper()
	w.give(t, linktest.Assign(linktest.Attempt("t", 1), payload))
	return w.AwaitResult(t, 1, 1)
}

type line struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	UID     string    `json:"uid"`
	Item    *int32    `json:"item"`
	Attempt int32     `json:"attempt"`
	Epoch   int64     `json:"epoch"`
	Outcome string    `json:"outcome"`
	Fenced  bool      `json:"fenced"`
}

// journal reads the starts and finishes in the agent's journal, once it has this many lines of them. The agent does not wait until
// they are written.
func (w *world) journal(t *testing.T, lines int) (read []line) {
	t.Helper()
	linktest.Eventually(t, "the journal has "+strconv.Itoa(lines)+" lines", func() bool {
		read = slices.DeleteFunc(w.readJournal(t), isAcknowledgement)
		return len(read) >= lines
	})
	return read
}

func isAcknowledgement(entry line) bool { return entry.Event == "acknowledge" }

func (w *world) readJournal(t *testing.T) []line {
	t.Helper()
	file, err := os.Open(w.config.Journal)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var lines []line
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var entry line
		if err := json.Unmarshal(scanner.Bytes(), &entry); err != nil {
			t.Fatalf("journal line %q: %v", scanner.Text(), err)
		}
		lines = append(lines, entry)
	}
	return lines
}

// file waits for a file that a script writes into its state folder, and returns its words.
func (w *world) file(t *testing.T, name string) []string {
	t.Helper()
	var content []byte
	linktest.Eventually(t, "file "+name, func() bool {
		content, _ = os.ReadFile(filepath.Join(w.config.StateDir, name))
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
		linktest.Eventually(t, "process "+text+" is gone", func() bool { return !alive(pid) })
	}
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(status), ") Z ")
}
