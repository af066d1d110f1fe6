package program

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/swarm-io/swarm-operator/internal/testkit/programtest"
)

// The test binary is the program when its environment says so, and cat when it is called by that name: real processes, as in a pod.
func TestMain(m *testing.M) {
	if os.Getenv("BE_SWARM_WORKER") == "" {
		os.Exit(m.Run())
	}
	os.Exit(Main("v1.2.3", os.Args, os.Stdout, os.Stderr))
}

func TestArguments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(file, []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("POD_NAME", "")
	t.Setenv("POD_UID", "")
	expect := programtest.Expect
	programtest.CheckCalls(t, func(arguments []string, stdout, stderr io.Writer) int {
		return Main("v1.2.3", arguments, stdout, stderr)
	},
		expect("swarm-worker version", 0, "v1.2.3\n", ""),
		expect("/swarm-worker --version", 0, "v1.2.3\n", ""),
		expect("swarm-worker --help", 0, usage, ""),
		expect("swarm-worker help", 0, usage, ""),
		expect("swarm-worker", 64, "", "usage"),
		expect("swarm-worker run", 64, "", "usage"),
		expect("swarm-worker run --", 64, "", "usage"),
		expect("swarm-worker --nonsense", 64, "", "usage"),
		expect("swarm-worker hold it", 64, "", "usage"),
		expect("swarm-worker hold", 1, "", "POD_NAME is not set"),
		expect("swarm-worker run -- /bin/true", 1, "", "POD_UID is not set"),
		expect("swarm-worker /bin/true", 1, "", "POD_NAME is not set"),
		expect("swarm-worker cat "+file, 0, "version: 1\n", ""),
		expect("/bin/cat "+file+" "+file, 0, "version: 1\nversion: 1\n", ""),
		expect("cat /nonexistent "+file, 1, "version: 1\n", "/nonexistent: no such file"),
	)
}

// As the image has it: a link called cat.
func TestLinkIsCat(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "cat")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), link)
	command.Env = append(os.Environ(), "BE_SWARM_WORKER=1")
	command.Stdin = strings.NewReader("through and through")
	if output, err := command.CombinedOutput(); err != nil || string(output) != "through and through" {
		t.Errorf("%q, %v", output, err)
	}
}

// A workerProcess is swarm-worker with arguments, and what it logs.
type workerProcess struct {
	*exec.Cmd
	address   string
	dir       string
	logClosed chan struct{} // closed when it no longer logs
}

func startWorker(t *testing.T, arguments ...string) *workerProcess {
	t.Helper()
	p := &workerProcess{Cmd: exec.Command(os.Args[0], arguments...), dir: t.TempDir(), logClosed: make(chan struct{})}
	list := "version: 2\nworkloads: {swarm-worker-0: {jobs: [a], version: 2}}\n"
	if err := os.WriteFile(filepath.Join(p.dir, "config.yml"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Env = append(os.Environ(), "BE_SWARM_WORKER=1", "POD_NAME=swarm-worker-0", "POD_UID=u-1", "SWARM_PORT=0", "OUT="+p.dir,
		"SWARM_CONFIG="+filepath.Join(p.dir, "config.yml"), "SWARM_JOURNAL="+filepath.Join(p.dir, "journal"))
	log, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	lines := bufio.NewScanner(log)
	for p.address == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			p.address = line.Address
		}
	}
	if p.address == "" {
		t.Fatal("it does not say where it serves")
	}
	go func() {
		defer close(p.logClosed)
		_, _ = io.Copy(t.Output(), log)
	}()
	return p
}

func (p *workerProcess) acknowledges(want string) func() bool {
	return func() bool {
		_, port, _ := strings.Cut(p.address, "]:")
		response, err := http.Get("http://127.0.0.1:" + port + "/internal/version")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return strings.TrimSpace(string(body)) == want
	}
}

const waitLimit = `{"worker":"swarm-worker-0","podUID":"u-1","version":2,"config":2}`

// A pod that is deleted gets SIGTERM: its programs stop and the process ends well.
func TestSIGTERMStopsTheJobs(t *testing.T) {
	p := startWorker(t, "run", "--", "bash", "-c", `echo $$ >$OUT/pid.$SWARM_JOB; exec sleep 1000`)
	programtest.Eventually(t, "acknowledgement", p.acknowledges(waitLimit))
	pid := p.pid(t)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.logClosed
	if err := p.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Error("the program lives on")
	}
}

// The programs die with their worker, however it dies.
func TestProgramsDieWithTheWorker(t *testing.T) {
	p := startWorker(t, "bash", "-c", `echo $$ >$OUT/pid.$SWARM_JOB; exec sleep 1000`)
	pid := p.pid(t)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.logClosed
	_ = p.Wait()
	programtest.Eventually(t, "the program is gone", func() bool { return programtest.IsGone(pid) })
}

func (p *workerProcess) pid(t *testing.T) (pid int) {
	t.Helper()
	programtest.Eventually(t, "the program runs", func() bool {
		pid = programtest.ReadPID(filepath.Join(p.dir, "pid.a"))
		return pid > 0
	})
	return pid
}

func TestHold(t *testing.T) {
	p := startWorker(t, "hold")
	programtest.Eventually(t, "acknowledgement", p.acknowledges(waitLimit))
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.logClosed
	if err := p.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	journal, err := os.ReadFile(filepath.Join(p.dir, "journal"))
	if err != nil || strings.Count(string(journal), "\n") != 4 {
		t.Errorf("journal %s (%v), want boot, acknowledge, start, stop", journal, err)
	}
}
