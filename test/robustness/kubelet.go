package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/agent"
)

const (
	// containerPause is how long it takes until a container is restarted.
	containerPause = 300 * time.Millisecond
	// podGrace is how long an agent has between SIGTERM and SIGKILL when its pod is deleted.
	podGrace = 10 * time.Second
)

// A Kubelet runs the processes of agents, because simulated nodes run none. Like a real one it restarts a container that has ended, stops
// it when its pod is deleted, and reports the end of a container in the pod's status.
type Kubelet struct {
	run    *Run
	links  map[string]*Link // by pod name
	output *os.File

	mu      sync.Mutex
	agents  map[string]*container // by pod name: the newest
	orphans map[types.UID]time.Duration
}

// A container is the process of a pod, one after the other.
type container struct {
	kubelet  *Kubelet
	pod      *corev1.Pod
	config   agent.Config
	restarts int32

	mu      sync.Mutex
	process *Process
	name    string // of the process, in the journal
	report  bool   // the next end is reported before the container is restarted
}

// Run implements fakeagents.Runner.
func (k *Kubelet) Run(ctx context.Context, pod *corev1.Pod, config agent.Config) error {
	c := &container{kubelet: k, pod: pod, config: config}
	k.mu.Lock()
	k.agents[pod.Name] = c
	k.mu.Unlock()
	for ctx.Err() == nil {
		if err := c.start(); err != nil {
			return err
		}
		select {
		case <-c.process.ended:
			c.onProcessEnd()
			c.reportEnd(ctx)
			pause(ctx, containerPause)
		case <-ctx.Done():
			c.stop(k.orphaned(pod.UID))
		}
	}
	return nil
}

// orphaned is how long a process survives its pod that was deleted by force.
func (k *Kubelet) orphaned(pod types.UID) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.orphans[pod]
}

// OrphanProcess makes the process of a pod survive the pod.
func (k *Kubelet) OrphanProcess(pod types.UID, long time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.orphans[pod] = long
}

// Agent is the newest container of an agent; nil when there was none yet.
func (k *Kubelet) Agent(name string) *container {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.agents[name]
}

// start starts the next process of the container.
func (c *container) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name = fmt.Sprintf("%s/%.8s/%d", c.pod.Name, c.pod.UID, c.restarts)
	if err := os.WriteFile(c.terminationLog(), nil, 0o600); err != nil {
		return err
	}
	command := exec.Command(c.kubelet.run.program, c.pod.Spec.Containers[0].Args...)
	command.Env = append(os.Environ(), c.environment()...)
	var err error
	c.process, err = startProcess(command, c.kubelet.output)
	return err
}

func (c *container) terminationLog() string {
	return filepath.Join(c.config.StateDir, "termination-log")
}

// environment is the pod's, except for the address: the agent dials its own proxies.
func (c *container) environment() []string {
	return []string{
		"SWARM_NAMESPACE=" + c.config.Namespace, "SWARM_NAME=" + c.config.Swarm, "SWARM_AGENT=" + c.config.Agent,
		"SWARM_SLOTS=" + strconv.Itoa(c.config.Slots),
		"SWARM_LINK_ADDRESS=" + strings.Join(c.kubelet.links[c.pod.Name].Addresses, ","),
		"SWARM_LINK_TOKEN_FILE=" + c.config.TokenFile, "SWARM_LINK_CA_FILE=" + c.config.CAFile,
		"SWARM_GRACE_SECONDS=2", "SWARM_STATE=" + c.config.StateDir, "SWARM_RUNTIME_DIR=" + c.config.RuntimeDir,
		"SWARM_TERMINATION_LOG=" + c.terminationLog(),
		journalVariable + "=" + c.kubelet.run.journalPath(), processVariable + "=" + c.name,
	}
}

// onProcessEnd is called when the process has ended.
func (c *container) onProcessEnd() {
	c.kubelet.run.journal.Write(Event{Kind: eventExited, Process: c.name, Note: c.process.command.ProcessState.String()})
	c.restarts++
}

// stop ends the process of a deleted pod: in order or, after a deletion by force, once the node has noticed it.
func (c *container) stop(orphaned time.Duration) {
	pause(c.kubelet.run.backgroundCtx, orphaned)
	if orphaned == 0 {
		c.process.Terminate()
		timeout := time.AfterFunc(podGrace, c.process.Kill)
		<-c.process.ended
		timeout.Stop()
	}
	c.process.Kill()
	c.onProcessEnd()
}

// kill kills the process. The end may remain unreported, as if the kubelet was busy.
func (c *container) kill(report bool) {
	c.mu.Lock()
	c.report = report
	process := c.process
	c.mu.Unlock()
	process.Kill()
}

// reportEnd writes the end of the process into the pod's status, as the kubelet does.
func (c *container) reportEnd(ctx context.Context) {
	c.mu.Lock()
	report := c.report
	c.report = false
	c.mu.Unlock()
	message, err := os.ReadFile(c.terminationLog())
	if !report || err != nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	pod := &corev1.Pod{}
	if err := c.kubelet.run.api.Get(limited, client.ObjectKeyFromObject(c.pod), pod); err != nil || pod.UID != c.pod.UID ||
		len(pod.Status.ContainerStatuses) == 0 {
		return
	}
	status := &pod.Status.ContainerStatuses[0]
	status.RestartCount = c.restarts
	status.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "Error", Message: string(message), FinishedAt: metav1.Now(),
		ContainerID: fmt.Sprintf("simulated://%s-%d", c.pod.UID, c.restarts-1),
	}}
	_ = c.kubelet.run.api.Status().Update(limited, pod) // a real kubelet would try again; the lease takes care of it as well
}

// suspend stops the process for a while.
func (c *container) suspend(ctx context.Context, duration time.Duration) bool {
	c.mu.Lock()
	process, name := c.process, c.name
	c.mu.Unlock()
	if process.Suspend() != nil {
		return false
	}
	journal := c.kubelet.run.journal
	journal.Write(Event{Kind: eventSuspended, Process: name})
	pause(ctx, duration)
	process.Resume(func() { journal.Write(Event{Kind: eventResumed, Process: name}) })
	return true
}
