package fakeagents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	audience     = "swarm.io"
	caKey        = "ca.crt"
	tokenSeconds = 3600
	// retryInterval is how long after a failure a token is asked for again.
	retryInterval = 500 * time.Millisecond
)

// runAgent is the life of an agent.
func (c *AgentSet) runAgent(ctx context.Context, pod *corev1.Pod) error {
	folder := filepath.Join(c.folder, string(pod.UID))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(folder)
	config, err := agent.ConfigFromEnvironment(environment(pod))
	if err != nil {
		return err
	}
	config.TokenFile = filepath.Join(folder, "token")
	config.CAFile = c.caFile(pod.Namespace, config.Swarm+"-config")
	config.StateDir, config.RuntimeDir, config.Journal = folder, folder, filepath.Join(c.folder, journalFile)
	config.Log = c.options.Log.With("agent", pod.Name)
	config.Abort = func(string) {} // it is in the log, the journal shows what it led to, and others live in this process too

	identified := make(chan struct{})
	go c.keepToken(ctx, pod, config.TokenFile, sync.OnceFunc(func() { close(identified) }))
	select {
	case <-identified:
		return c.options.Runner(ctx, pod, config)
	case <-ctx.Done():
		return nil
	}
}

// environment is what the pod's first container would find.
func environment(pod *corev1.Pod) func(string) string {
	fields := map[string]string{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID)}
	values := map[string]string{}
	for _, variable := range pod.Spec.Containers[0].Env {
		values[variable.Name] = variable.Value
		if from := variable.ValueFrom; from != nil && from.FieldRef != nil {
			values[variable.Name] = fields[from.FieldRef.FieldPath]
		}
	}
	return func(name string) string { return values[name] }
}

// keepToken keeps a good token in the file, as the kubelet does, and calls identified once there is the first.
func (c *AgentSet) keepToken(ctx context.Context, pod *corev1.Pod, file string, ready func()) {
	for {
		pause := retryInterval
		expiry, err := c.requestToken(ctx, pod, file)
		switch {
		case ctx.Err() != nil || apierrors.IsNotFound(err):
			return
		case err != nil:
			c.options.Log.Warn("no token", "pod", pod.Name, "error", err)
		default:
			ready()
			pause = time.Until(expiry) * 4 / 5
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// requestToken gets one that is bound to the pod.
func (c *AgentSet) requestToken(ctx context.Context, pod *corev1.Pod, file string) (expires time.Time, err error) {
	wanted := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: new(int64(tokenSeconds)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	made, err := c.api.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, wanted, metav1.CreateOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("request token: %w", err)
	}
	return made.Status.ExpirationTimestamp.Time, writeFileAtomically(file, made.Status.Token)
}

// writeCA brings the CA of a swarm to its agents.
func (c *AgentSet) writeCA(config *corev1.ConfigMap) {
	if config.Name != config.Labels[v1alpha1.LabelSwarm]+"-config" || config.Data[caKey] == "" {
		return
	}
	if err := writeFileAtomically(c.caFile(config.Namespace, config.Name), config.Data[caKey]); err != nil {
		c.options.Log.Error("agents have no CA", "namespace", config.Namespace, "error", err)
	}
}

func (c *AgentSet) caFile(namespace, config string) string {
	return filepath.Join(c.folder, namespace+"_"+config+".crt")
}

// writeFileAtomically writes a file that may be read at any time: the reader finds the old or the new one, whole.
func writeFileAtomically(file, content string) error {
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return os.Rename(file+".new", file)
}
