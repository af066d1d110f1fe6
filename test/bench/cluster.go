package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// space is the benchmark's namespace.
const space = "swarm-bench"

// A cluster is the one that `devcluster run` has started for us.
type cluster struct {
	config *rest.Config
	api    client.WithWatch
	audit  string // the log of the API server
}

func connect(ctx context.Context) (*cluster, error) {
	folder := os.Getenv("DEVCLUSTER_DATA")
	if folder == "" {
		return nil, errors.New("DEVCLUSTER_DATA is not set: run `make bench`, which starts a cluster")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.UserAgent = -1, "swarm-bench"
	scheme := runtime.NewScheme()
	if err := errors.Join(admissionv1.AddToScheme(scheme), batchv1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme),
		v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	made := &cluster{config: config, api: api, audit: filepath.Join(folder, "logs", "control-plane", "audit-1.log")}
	return made, made.prepare(ctx)
}

// prepare installs the CRDs and creates the namespaces.
func (c *cluster) prepare(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, "kubectl", "apply", "--server-side", "--filename", "deploy/crds").CombinedOutput()
	if err != nil {
		return fmt.Errorf("install CRDs: %w: %s", err, output)
	}
	output, err = exec.CommandContext(ctx, "kubectl", "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s").CombinedOutput()
	if err != nil {
		return fmt.Errorf("install CRDs: %w: %s", err, output)
	}
	for _, name := range []string{space, "swarm-system"} {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := client.IgnoreAlreadyExists(c.api.Create(ctx, made)); err != nil {
			return fmt.Errorf("create namespace %q: %w", name, err)
		}
	}
	return nil
}

// keepFinished keeps tasks until a measurement is over, so that deleting them is not measured.
var keepFinished = v1alpha1.TaskLimits{FinishedLimit: new(int32(100_000)), TTLSecondsAfterFinished: new(int32(24 * 3600))}

// swarm creates a swarm of simulated pods.
func (c *cluster) swarm(ctx context.Context, name string, agents, slots int32) error {
	return c.swarmIn(ctx, space, name, agents, slots)
}

func (c *cluster) swarmIn(ctx context.Context, ns, name string, agents, slots int32) error {
	swarm := &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.SwarmSpec{Replicas: &agents, MaxAgents: max(agents, 10), Tasks: keepFinished, Agents: []v1alpha1.AgentType{{
			Type: "worker", Slots: slots,
			Runtime:  &v1alpha1.AgentRuntime{Exec: &v1alpha1.ExecRuntime{Command: []string{"/simulated"}}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "localhost/simulated:1"}}}},
		}}},
	}
	return c.api.Create(ctx, swarm)
}

// awaitSwarmsReady waits until every swarm is ready.
func (c *cluster) awaitSwarmsReady(ctx context.Context) error { return c.readyIn(ctx, space) }

func (c *cluster) readyIn(ctx context.Context, ns string) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		swarms := &v1alpha1.SwarmList{}
		if err := c.api.List(ctx, swarms, client.InNamespace(ns)); err != nil {
			return false, err
		}
		for n := range swarms.Items {
			if !meta.IsStatusConditionTrue(swarms.Items[n].Status.Conditions, v1alpha1.ConditionReady) {
				return false, nil
			}
		}
		return true, nil
	})
}

// task creates a task of a given duration.
func (c *cluster) task(ctx context.Context, name, swarm string, length time.Duration) error {
	return c.taskIn(ctx, space, name, swarm, length)
}

func (c *cluster) taskIn(ctx context.Context, ns, name, swarm string, length time.Duration) error {
	payload, err := json.Marshal(map[string]int64{"milliseconds": length.Milliseconds()})
	if err != nil {
		return err
	}
	return c.api.Create(ctx, &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       v1alpha1.TaskSpec{SwarmRef: v1alpha1.SwarmReference{Name: swarm}, Payload: &apiextensionsv1.JSON{Raw: payload}},
	})
}

// watchCompleted watches tasks and reports when each is completed, until the context ends.
func (c *cluster) watchCompleted(ctx context.Context) (<-chan string, error) {
	watching, err := c.watch(ctx, &v1alpha1.TaskList{})
	if err != nil {
		return nil, err
	}
	completed := make(chan string, 1024)
	go func() {
		defer watching.Stop()
		for event := range watching.ResultChan() {
			if task, isTask := event.Object.(*v1alpha1.Task); isTask && task.Status.Phase.Final() {
				completed <- task.Name
			}
		}
	}()
	return completed, nil
}

// serverTime is the processor time that the API server and etcd have used so far.
func (c *cluster) serverTime(ctx context.Context) (time.Duration, error) {
	text, err := exec.CommandContext(ctx, "bin/devcluster", "status", "-o", "json").Output()
	if err != nil {
		return 0, fmt.Errorf("read status of the cluster: %w", err)
	}
	var status struct {
		Components []struct {
			Name string
			PID  int
		}
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return 0, fmt.Errorf("decode status of the cluster: %w", err)
	}
	var sum time.Duration
	for _, component := range status.Components {
		if component.Name != "etcd" && component.Name != "kube-apiserver" {
			continue
		}
		taken, err := processorTime(component.PID)
		if err != nil {
			return 0, err
		}
		sum += taken
	}
	return sum, nil
}

// watch starts with the next change: events for thousands of existing objects would make the API server end the watch.
func (c *cluster) watch(ctx context.Context, list client.ObjectList) (watch.Interface, error) {
	if err := c.api.List(ctx, list, client.InNamespace(space), client.Limit(1)); err != nil {
		return nil, fmt.Errorf("list %T: %w", list, err)
	}
	from := &client.ListOptions{Namespace: space, Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	watching, err := c.api.Watch(ctx, list, from)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", list, err)
	}
	return watching, nil
}
