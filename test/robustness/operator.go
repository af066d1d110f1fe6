package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/apiproxy"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

const (
	// agentLease is how long most agents work without hearing from a leader: the shortest that a type can have.
	agentLease = 10 * time.Second
	// longLease is above a minute, so that assignments are stored before they are sent.
	longLease = 61 * time.Second
	// leaseDuration is that of the leader election. With a shorter one, leaders would resign on a busy machine.
	leaseDuration = 12 * time.Second
	// operatorName is the prefix of the names of all replicas.
	operatorName = "operator"
	// operators is how many replicas there are.
	operators = 2
	// operatorPause is how long it takes until a container of an operator is restarted.
	operatorPause = 500 * time.Millisecond
)

// An Operator is a replica: one process after the other, behind a proxy to the API server.
type Operator struct {
	name         string // of its pod, if it had one
	kubeconfig   string
	link         string // its port
	lockDir      string // see POD_LOCK_DIR; "" for every other replica, so that both ways of taking over happen
	output       *os.File
	journal      *Journal
	losesAnswers atomic.Bool // answers of the API server to its writes

	mu      sync.Mutex
	process *Process
	lease   string // what the journal has of its Lease
}

// newOperator prepares a replica. It is started by KeepRunning.
func newOperator(ctx context.Context, run *Run, number int) (*Operator, error) {
	name := fmt.Sprintf("%s-%d", operatorName, number)
	folder := filepath.Join(run.folder, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	o := &Operator{name: name, link: ports.Free(), journal: run.journal}
	if number%2 == 0 {
		o.lockDir = folder
	}
	address, err := apiproxy.Start(ctx, run.cluster, apiproxy.Options{Response: o.observe})
	if err != nil {
		return nil, err
	}
	if o.kubeconfig, err = apiproxy.Kubeconfig(folder, address); err != nil {
		return nil, err
	}
	o.output, err = os.Create(filepath.Join(folder, "output.log"))
	return o, err
}

func (o *Operator) address() string { return net.JoinHostPort("127.0.0.1", o.link) }

func (o *Operator) environment() []string {
	return append(os.Environ(),
		"KUBECONFIG="+o.kubeconfig,
		"POD_NAME="+o.name,
		"POD_LOCK_DIR="+o.lockDir,
		"POD_IP="+o.name+".invalid", // agents that a standby redirects to the leader must not bypass the proxies: see runAgent
		"GORACE=halt_on_error=0",
		"SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchLabels: {kubernetes.io/metadata.name: "+namespace+"}}",
		"SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION="+leaseDuration.String(),
		"SWARM_LINK_ADDRESS="+o.address(),
		"SWARM_LINK_PORT="+o.link,
		"SWARM_HEALTH_PORT="+ports.Free(),
		"SWARM_API_PORT="+ports.Free(),
		"SWARM_WEBHOOK_ENABLED=false",
		"SWARM_METRICS_ENABLED=false",
		"SWARM_LOGGING_FORMAT=text",
	)
}

// KeepRunning starts a process whenever there is none, until the context ends, and then ends the last one.
func (o *Operator) KeepRunning(ctx context.Context, program string) error {
	for ctx.Err() == nil {
		command := exec.Command(program, "--namespace", namespace)
		command.Env = o.environment()
		process, err := startProcess(command, o.output)
		if err != nil {
			return fmt.Errorf("%w: run `make build race-operator` first", err)
		}
		o.mu.Lock()
		o.process = process
		o.mu.Unlock()
		select {
		case <-process.ended:
			pause(ctx, operatorPause)
		case <-ctx.Done():
			process.Kill()
		}
	}
	return nil
}

func (o *Operator) current() *Process {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.process
}

var errAnswerLost = errors.New("the answer is lost")

// observe is called when the API server has responded, and before the operator gets the response. So what is stored is in the journal
// before the operator can act on it.
func (o *Operator) observe(response *http.Response) error {
	request := response.Request
	writes := request.Method != http.MethodGet && response.StatusCode < http.StatusMultipleChoices &&
		!strings.Contains(request.URL.Path, "tokenreviews")
	if writes && strings.Contains(request.URL.Path, "/tasks/") {
		if err := o.record(response); err != nil {
			return err
		}
	}
	if writes && strings.Contains(request.URL.Path, "/leases") {
		if err := o.recordLease(response); err != nil {
			return err
		}
	}
	if writes && o.losesAnswers.Load() && !strings.Contains(request.URL.Path, "/leases/") { // a leader that resigns is another fault
		return errAnswerLost
	}
	return nil
}

// recordLease records in the journal that the operator leads from now on, and in which term.
func (o *Operator) recordLease(response *http.Response) error {
	body, err := bodyOf(response)
	if err != nil {
		return err
	}
	decoded, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return fmt.Errorf("decode the Lease of %s: %w", o.name, err)
	}
	lease, isLease := decoded.(*coordinationv1.Lease)
	if !isLease || lease.Name != leaseName || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		return nil
	}
	holder, term := *lease.Spec.HolderIdentity, int64(ptr.Deref(lease.Spec.LeaseTransitions, 0))
	now := fmt.Sprintf("%s in term %d", holder, term)
	o.mu.Lock()
	known := o.lease == now
	o.lease = now
	o.mu.Unlock()
	if !known {
		o.journal.Write(Event{Kind: eventElected, Process: holder, Epoch: term << 32, Note: fmt.Sprintf("term %d", term)})
	}
	return nil
}

// bodyOf reads a response that can be read again afterwards.
func bodyOf(response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// record records a Task that the API server has stored.
func (o *Operator) record(response *http.Response) error {
	body, err := bodyOf(response)
	if err != nil {
		return err
	}
	task := &v1alpha1.Task{}
	if json.Unmarshal(body, task) == nil && task.UID != "" {
		o.journal.Write(newStoredEvent(task, o.name))
	}
	return nil
}

var problemPattern = regexp.MustCompile(`(?m)^(WARNING: DATA RACE|panic: |fatal error: ).*$`)

// problems returns the data races and panics in the output of a replica.
func (o *Operator) problems() (problems []error) {
	text, err := os.ReadFile(o.output.Name())
	if err != nil {
		return []error{err}
	}
	for _, line := range problemPattern.FindAllString(string(text), -1) {
		problems = append(problems, fmt.Errorf("%s: %s, see %s", o.name, line, o.output.Name()))
	}
	return problems
}
