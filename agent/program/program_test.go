package program

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
	"github.com/swarm-io/swarm-operator/internal/testkit/programtest"
)

// The test binary is the program when its environment says so: real processes, as in a pod.
func TestMain(m *testing.M) {
	if os.Getenv("BE_SWARM_AGENT") == "" {
		os.Exit(m.Run())
	}
	os.Exit(Main("v1.2.3", os.Args[1:], os.Stdout, os.Stderr))
}

func TestArguments(t *testing.T) {
	expect := programtest.Expect
	programtest.CheckCalls(t, func(arguments []string, stdout, stderr io.Writer) int {
		return Main("v1.2.3", arguments, stdout, stderr)
	},
		expect("version", 0, "v1.2.3\n", ""),
		expect("", 64, "", "usage"),
		expect("run", 64, "", "usage"),
		expect("run --", 64, "", "usage"),
		expect("--help", 64, "", "usage"),
		expect("copy", 64, "", "usage"),
		expect("copy /nonexistent/agent", 1, "", "copy this program to /nonexistent/agent"),
		expect("run -- /bin/true", 1, "", "SWARM_AGENT is not set"),
		expect("/bin/true", 1, "", "SWARM_NAMESPACE is not set"),
	)
}

func TestCopyMakesAProgram(t *testing.T) {
	dir := t.TempDir()
	for _, destination := range []string{filepath.Join(dir, "agent"), dir} {
		var stderr bytes.Buffer
		if code := Main("", []string{"copy", destination}, os.Stdout, &stderr); code != 0 {
			t.Fatalf("code %d: %s", code, &stderr)
		}
	}
	for _, name := range []string{"agent", filepath.Base(os.Args[0])} {
		copied := exec.CommandContext(t.Context(), filepath.Join(dir, name), "version")
		copied.Env = append(os.Environ(), "BE_SWARM_AGENT=1")
		if output, err := copied.CombinedOutput(); err != nil || string(output) != "v1.2.3\n" {
			t.Errorf("%s: %q, %v", name, output, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

// startAgent starts swarm-agent with a command as a separate process, linked to an operator.
func startAgent(t *testing.T, command ...string) (*exec.Cmd, *linktest.Operator, string) {
	t.Helper()
	return startAgentWith(t, func(process *exec.Cmd) { process.Stderr = t.Output() }, command...)
}

// startAgentWith lets a test change the process before it starts.
func startAgentWith(t *testing.T, change func(*exec.Cmd), command ...string) (*exec.Cmd, *linktest.Operator, string) {
	t.Helper()
	operator := linktest.Start(t, linktest.NewCA(t))
	state := t.TempDir()
	process := exec.CommandContext(t.Context(), os.Args[0], append([]string{"run", "--"}, command...)...)
	process.Env = append(os.Environ(), "BE_SWARM_AGENT=1",
		"SWARM_NAMESPACE=default", "SWARM_NAME=research", "SWARM_AGENT="+testAgent.Name, "SWARM_GRACE_SECONDS=1",
		"SWARM_LINK_ADDRESS="+operator.Address, "SWARM_LINK_SERVER_NAME="+linktest.ServerName,
		"SWARM_LINK_TOKEN_FILE="+linktest.WriteFile(t, "token", []byte(testAgent.String())), "SWARM_LINK_CA_FILE="+operator.CA.File(t),
		"SWARM_STATE="+state, "SWARM_RUNTIME_DIR="+state, "SWARM_JOURNAL="+filepath.Join(state, "journal"))
	change(process)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill() })
	operator.AwaitCredit(t, 1)
	return process, operator, state
}

var testAgent = link.Agent{Namespace: "default", Name: "research-coder-0"}

// The program of an attempt dies with its agent, however the agent dies.
func TestProgramDiesWithTheAgent(t *testing.T) {
	process, operator, state := startAgent(t, "bash", "-c", `echo $$ >$SWARM_STATE/pid; sleep 1000; echo never`)
	if err := operator.Send(testAgent, linktest.Assign(linktest.Attempt("t", 1), "{}")); err != nil {
		t.Fatal(err)
	}
	var pid int
	linktest.Eventually(t, "the program runs", func() bool {
		pid = programtest.ReadPID(filepath.Join(state, "pid"))
		return pid > 0 && syscall.Kill(pid, 0) == nil
	})
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	linktest.Eventually(t, "the program is gone", func() bool { return programtest.IsGone(pid) })
}

// A deleted pod gets SIGTERM: the work is handed back and the process exits with success.
func TestSIGTERMHandsBack(t *testing.T) {
	process, operator, _ := startAgent(t, "bash", "-c", `echo 5 >$SWARM_PROGRESS; sleep 1000`)
	attempt := linktest.Attempt("t", 1)
	if err := operator.Send(testAgent, linktest.Assign(attempt, "{}")); err != nil {
		t.Fatal(err)
	}
	operator.AwaitProgress(t, 1, 5)
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := operator.AwaitResult(t, 1, 1); got.GetReason() != "AgentStopping" {
		t.Errorf("got %v", got)
	}
	if err := operator.Send(testAgent, linktest.Acknowledge(attempt)); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if hello := operator.AwaitHello(t, 1); hello.GetVersion() != "v1.2.3" || hello.GetSlots() != 1 {
		t.Errorf("hello %v", hello)
	}
}

// F3: the container runtime does not read standard error any more. Programs that print there, and the agent that copies it, go on.
func TestUnreadOutputStopsNothing(t *testing.T) {
	unread, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	_, operator, _ := startAgentWith(t, func(process *exec.Cmd) { process.Stderr = stderr }, "bash", "-c",
		`head -c 3000000 /dev/zero >&2; echo 1`)
	_ = stderr.Close()
	for epoch := range int64(2) {
		if err := operator.Send(testAgent, linktest.Assign(linktest.Attempt("t", epoch+1), "{}")); err != nil {
			t.Fatal(err)
		}
		if got := operator.AwaitResult(t, 1, epoch+1); string(got.GetValue()) != "1" {
			t.Errorf("got %v", got)
		}
		operator.AwaitCredit(t, epoch+2)
	}
}

// F24: a descendant that leaves the process group of its program does not stay a zombie.
func TestOrphansOfProgramsAreReaped(t *testing.T) {
	process, operator, _ := startAgent(t, "bash", "-c", `setsid sleep 0.1 >/dev/null 2>&1 </dev/null & echo $!`)
	if err := operator.Send(testAgent, linktest.Assign(linktest.Attempt("t", 1), "{}")); err != nil {
		t.Fatal(err)
	}
	orphan := string(operator.AwaitResult(t, 1, 1).GetValue())
	linktest.Eventually(t, "process "+orphan+" of agent "+strconv.Itoa(process.Process.Pid)+" is gone", func() bool {
		_, err := os.Stat("/proc/" + orphan)
		return err != nil
	})
}
