// Package fakeagents is the agents of pods on simulated nodes: the containers of such a pod only seem to run, so a test runs the
// real agent for it, in its own process, on the public SDK. A test that needs processes of their own gives a Runner.
//
// It promises that an agent knows no more than its pod would: its configuration is the environment of the pod's first container, its token
// is one that the API server binds to that pod, its CA is the one in the swarm's ConfigMap, and both are renewed. An agent lives from when
// its pod is Running until the pod is being deleted, when it is asked to stop as by SIGTERM; a pod of the same name with another UID is
// another agent that remembers nothing. A pod whose labels change keeps its agent, as it would under a kubelet; this is so for the set of
// agents of one namespace only. It never writes to the cluster but for TokenRequests.
//
// The operator must be reachable from here: start it with a link.address such as 127.0.0.1:<link.port>.
package fakeagents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakepods"
)

// Options are the pods to run agents for, and what the agents do.
type Options struct {
	Namespace string // left out: all of them
	Handler   agent.Handler
	Runner    Runner       // left out: the agent runs in this process, with the Handler
	Log       *slog.Logger // left out: nowhere
}

// A Runner runs the agent of a pod until nothing of it is left. The context ends when the pod is being deleted or is gone.
type Runner func(ctx context.Context, pod *corev1.Pod, config agent.Config) error

// An AgentSet is all agents of the pods of swarms.
type AgentSet struct {
	api       kubernetes.Interface
	options   Options
	folder    string
	cancel    context.CancelFunc
	informers informers.SharedInformerFactory
	work      sync.WaitGroup

	mu      sync.Mutex
	agents  map[types.UID]context.CancelFunc
	journal Journal // after Stop
}

// Start begins to run agents, for existing and for new pods, until Stop or the end of the context.
func Start(ctx context.Context, cluster *rest.Config, options Options) (*AgentSet, error) {
	if options.Runner == nil {
		if options.Handler == nil {
			return nil, errors.New("start agents: there is no handler")
		}
		options.Runner = func(ctx context.Context, _ *corev1.Pod, config agent.Config) error {
			return agent.RunWith(ctx, config, options.Handler)
		}
	}
	if options.Log == nil {
		options.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	node, err := fakepods.NewNode(cluster, "fakeagents-")
	if err != nil {
		return nil, fmt.Errorf("start agents: %w", err)
	}
	ctx, leave := context.WithCancel(ctx)
	agents := &AgentSet{api: node.API, options: options, folder: node.Folder, cancel: leave, agents: map[types.UID]context.CancelFunc{}}
	if err := agents.watch(ctx); err != nil {
		leave()
		return nil, fmt.Errorf("start agents: %w", err)
	}
	return agents, nil
}

// watch follows the pods and the ConfigMaps of swarms.
func (c *AgentSet) watch(ctx context.Context) error {
	ofSwarms := func(list *metav1.ListOptions) {
		if c.options.Namespace == "" {
			list.LabelSelector = v1alpha1.LabelSwarm
		}
	}
	c.informers = informers.NewSharedInformerFactoryWithOptions(c.api, 0, informers.WithNamespace(c.options.Namespace),
		informers.WithTweakListOptions(ofSwarms))
	_, configs := c.informers.Core().V1().ConfigMaps().Informer().AddEventHandler(fakepods.Handler(c.writeCA, func(*corev1.ConfigMap) {}))
	_, pods := c.informers.Core().V1().Pods().Informer().AddEventHandler(fakepods.Handler(
		func(pod *corev1.Pod) { c.ensureAgent(ctx, pod) }, c.stopAgent))
	if err := errors.Join(configs, pods); err != nil {
		return err
	}
	c.informers.Start(ctx.Done())
	return nil
}

// ensureAgent has an agent for a pod that runs, and for no other.
func (c *AgentSet) ensureAgent(ctx context.Context, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		c.stopAgent(pod)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if pod.Status.Phase != corev1.PodRunning || pod.Labels[v1alpha1.LabelSwarm] == "" || c.agents[pod.UID] != nil || ctx.Err() != nil {
		return
	}
	serving, stop := context.WithCancel(ctx)
	c.agents[pod.UID] = stop
	c.work.Go(func() {
		defer stop()
		if err := c.runAgent(serving, pod); err != nil {
			c.options.Log.Error("an agent could not work", "pod", pod.Name, "error", err)
		}
	})
}

// stopAgent has the agent of a pod stop.
func (c *AgentSet) stopAgent(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop := c.agents[pod.UID]; stop != nil {
		stop()
		delete(c.agents, pod.UID)
	}
}

// Size is how many agents there are now.
func (c *AgentSet) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.agents)
}

// Stop ends all agents, which hand back what they hold, and waits until nothing runs any more.
func (c *AgentSet) Stop() {
	c.cancel()
	c.informers.Shutdown()
	c.work.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.agents)
	if c.folder == "" {
		return
	}
	c.journal = readJournal(c.folder)
	if err := os.RemoveAll(c.folder); err != nil {
		c.options.Log.Warn("the folder of the agents is left", "error", err)
	}
	c.folder = ""
}

// Journal is what all agents have noted so far, in the order of time. It outlives Stop.
func (c *AgentSet) Journal() Journal {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.folder == "" {
		return c.journal
	}
	return readJournal(c.folder)
}
