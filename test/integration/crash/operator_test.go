package crash

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/swarm-io/swarm-operator/internal/testkit/apiproxy"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// An operator is the program, restarted whenever it was killed.
type operator struct {
	namespace string // in which it works
	tempDir   string // the namespace that it lives in
	settings  []string
	link      string // a port, as the next two are
	health    string
	api       string
	folder    string // of the kubeconfig

	kubeconfig string

	mu      sync.Mutex
	process *os.Process
	exited  chan struct{} // closed when the process is dead
	killed  bool
	stopped bool
	failure error // it ended by itself
	output  bytes.Buffer
	done    chan struct{}
}

// prepare returns an operator that reaches the API server through a proxy, and runs in the namespace in which it works.
func prepare(namespace, proxy string) (*operator, error) {
	folder, err := os.MkdirTemp("", "crash-")
	if err != nil {
		return nil, err
	}
	o := &operator{namespace: namespace, tempDir: namespace, link: ports.Free(), health: ports.Free(), api: ports.Free(), folder: folder,
		done: make(chan struct{})}
	o.kubeconfig, err = apiproxy.Kubeconfig(folder, proxy)
	return o, err
}

// start keeps it running.
func (o *operator) start() error {
	if err := o.spawn(); err != nil {
		return err
	}
	go o.restartWhenKilled()
	return nil
}

func (o *operator) address() string { return net.JoinHostPort("127.0.0.1", o.link) }

func (o *operator) environment() []string {
	settings := append(os.Environ(),
		"KUBECONFIG="+o.kubeconfig,
		"GORACE=halt_on_error=0",
		"SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchLabels: {kubernetes.io/metadata.name: "+o.namespace+"}}",
		"SWARM_CONTROLLER_LEADER_ELECTION_ENABLED=false",
		"SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION=6s", // after a kill, its successor waits for two thirds of it
		"SWARM_CONTROLLER_RESYNC_PERIOD=10m",                 // missed events must not be repaired by a resync
		"SWARM_LINK_AGENT_LEASE=5s",
		"SWARM_LINK_ADDRESS="+o.address(),
		"SWARM_LINK_PORT="+o.link,
		"SWARM_HEALTH_PORT="+o.health,
		"SWARM_API_PORT="+o.api,
		"SWARM_WEBHOOK_ENABLED=false", // it gets no requests here, and its port is the same for all
		"SWARM_METRICS_ENABLED=false",
		"SWARM_LOGGING_FORMAT=text",
	)
	return append(settings, o.settings...) // the last one counts
}

// spawn starts a process.
func (o *operator) spawn() error {
	command := exec.Command(program, "--namespace", o.tempDir)
	command.Env = o.environment()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stdout, command.Stderr = o, o
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped {
		return nil
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start operator: %w: run `make build` first", err)
	}
	done := make(chan struct{})
	o.process, o.exited, o.killed = command.Process, done, false
	go func() {
		err := command.Wait()
		o.mu.Lock()
		defer o.mu.Unlock()
		if wanted := o.killed || o.stopped && stoppedGracefully(command.ProcessState); !wanted {
			o.failure = errors.Join(o.failure, fmt.Errorf("the operator ended by itself: %w",
				errors.Join(err, errors.New(lastLines(o.output.String())))))
		}
		close(done)
	}()
	return nil
}

// stoppedGracefully reports whether a process stopped as requested. A process that has just started may not handle signals yet.
func stoppedGracefully(how *os.ProcessState) bool {
	status, known := how.Sys().(syscall.WaitStatus)
	return how.Success() || known && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// restartWhenKilled starts the next process when one was killed.
func (o *operator) restartWhenKilled() {
	defer close(o.done)
	for {
		o.mu.Lock()
		ended := o.exited
		o.mu.Unlock()
		<-ended
		o.mu.Lock()
		over := o.stopped || o.failure != nil
		o.mu.Unlock()
		if over || o.spawn() != nil {
			return
		}
	}
}

// kill kills the process and waits for its end.
func (o *operator) kill() {
	o.mu.Lock()
	o.killed = true
	ended := o.exited
	_ = o.process.Kill()
	o.mu.Unlock()
	<-ended
}

// stop stops the operator as Kubernetes would, and returns an error for what went wrong.
func (o *operator) stop() error {
	o.mu.Lock()
	o.stopped = true
	_ = o.process.Signal(syscall.SIGTERM)
	o.mu.Unlock()
	select {
	case <-o.done:
	case <-time.After(20 * time.Second):
		o.kill()
		return errors.New("the operator did not stop")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = os.RemoveAll(o.folder)
	if _, report, racing := strings.Cut(o.output.String(), "WARNING: DATA RACE"); racing {
		return errors.Join(o.failure, errors.New("data race:"+report))
	}
	return o.failure
}

// Write receives the output of all processes, one after the other.
func (o *operator) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.output.Write(text)
}

func (o *operator) logText() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.output.String()
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
