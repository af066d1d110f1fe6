// Package fakeagents runs the agents of pods on simulated nodes. The containers of such a pod do not really run, so the test runs the real
// agent for it, in its own process, with the public SDK. A test that needs separate processes passes a Runner.
//
// It promises that an agent knows no more than its pod would: its configuration is the environment of the pod's first container, its token
// is one that the API server binds to that pod, its CA is the one in the swarm's ConfigMap, and both are renewed. An agent runs from when
// its pod is Running until the pod is being deleted, when it is asked to stop as by SIGTERM. A pod of the same name with another UID is
// another agent without memory of the first. A pod whose labels change keeps its agent, as it would with a kubelet, if the set is limited
// to one namespace. The package creates only TokenRequests.
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

// Options says for which pods to run agents, and what the agents do.
type Options struct {
	Namespace string // default: all namespaces
	Handler   agent.Handler
	Runner    Runner       // default: runs the agent in this process, with the Handler
	Log       *slog.Logger // default: no log
}

// A Runner runs the agent of a pod until it has ended. The context ends when the pod is being deleted or no longer exists.
type Runner func(ctx context.Context, pod *corev1.Pod, config agent.Config) error

// An AgentSet runs the agents of the pods of swarms.
type AgentSet struct {
	api       kubernetes.Interface
	options   Options
	folder    string
	cancel    context.CancelFunc
	informers informers.SharedInformerFactory
	work      sync.WaitGroup

	mu      sync.Mutex
	agents  map[types.UID]context.CancelFunc
	journal Journal // set by Stop
}

// Start runs agents for existing and new pods until Stop or the end of the context.
func Start(ctx context.Context, cluster *rest.Config, options Options) (*AgentSet, error) {
	if options.Runner == nil {
		if options.Handler == nil {
			return nil, errors.New("start agents: no handler given")
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

// watch watches the pods and the ConfigMaps of swarms.
func (s *AgentSet) watch(ctx context.Context) error {
	ofSwarms := func(list *metav1.ListOptions) {
		if s.options.Namespace == "" {
			list.LabelSelector = v1alpha1.LabelSwarm
		}
	}
	s.informers = informers.NewSharedInformerFactoryWithOptions(s.api, 0, informers.WithNamespace(s.options.Namespace),
		informers.WithTweakListOptions(ofSwarms))
	_, configs := s.informers.Core().V1().ConfigMaps().Informer().AddEventHandler(fakepods.Handler(s.writeCA, func(*corev1.ConfigMap) {}))
	_, pods := s.informers.Core().V1().Pods().Informer().AddEventHandler(fakepods.Handler(
		func(pod *corev1.Pod) { s.ensureAgent(ctx, pod) }, s.stopAgent))
	if err := errors.Join(configs, pods); err != nil {
		return err
	}
	s.informers.Start(ctx.Done())
	return nil
}

// ensureAgent starts an agent for a running pod, and stops that of a terminating one.
func (s *AgentSet) ensureAgent(ctx context.Context, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		s.stopAgent(pod)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod.Status.Phase != corev1.PodRunning || pod.Labels[v1alpha1.LabelSwarm] == "" || s.agents[pod.UID] != nil || ctx.Err() != nil {
		return
	}
	serving, stop := context.WithCancel(ctx)
	s.agents[pod.UID] = stop
	s.work.Go(func() {
		defer stop()
		if err := s.runAgent(serving, pod); err != nil {
			s.options.Log.Error("agent failed", "pod", pod.Name, "error", err)
		}
	})
}

// stopAgent stops the agent of a pod.
func (s *AgentSet) stopAgent(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop := s.agents[pod.UID]; stop != nil {
		stop()
		delete(s.agents, pod.UID)
	}
}

// Size returns the number of agents.
func (s *AgentSet) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.agents)
}

// Stop stops all agents, which hand back what they hold, and waits until nothing runs any more.
func (s *AgentSet) Stop() {
	s.cancel()
	s.informers.Shutdown()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.agents)
	if s.folder == "" {
		return
	}
	s.journal = readJournal(s.folder)
	if err := os.RemoveAll(s.folder); err != nil {
		s.options.Log.Warn("cannot remove the folder of the agents", "error", err)
	}
	s.folder = ""
}

// Journal returns what all agents have recorded so far, by time. It can be called after Stop.
func (s *AgentSet) Journal() Journal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folder == "" {
		return s.journal
	}
	return readJournal(s.folder)
}
