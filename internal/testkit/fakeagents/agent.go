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
	// retryInterval is the delay before a token is requested again after a failure.
	retryInterval = 500 * time.Millisecond
)

// runAgent runs an agent from its start to its end.
func (s *AgentSet) runAgent(ctx context.Context, pod *corev1.Pod) error {
	folder := filepath.Join(s.folder, string(pod.UID))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	defer os.RemoveAll(folder)
	config, err := agent.ConfigFromEnvironment(environment(pod))
	if err != nil {
		return err
	}
	config.TokenFile = filepath.Join(folder, "token")
	config.CAFile = s.caFile(pod.Namespace, config.Swarm+"-config")
	config.StateDir, config.RuntimeDir, config.Journal = folder, folder, filepath.Join(s.folder, journalFile)
	config.Log = s.options.Log.With("agent", pod.Name)
	config.Abort = func(string) {} // it is logged, and other agents run in this process too

	identified := make(chan struct{})
	go s.keepToken(ctx, pod, config.TokenFile, sync.OnceFunc(func() { close(identified) }))
	select {
	case <-identified:
		return s.options.Runner(ctx, pod, config)
	case <-ctx.Done():
		return nil
	}
}

// environment returns the environment of the pod's first container.
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

// keepToken keeps a valid token in the file, as the kubelet does, and calls ready once the first one is there.
func (s *AgentSet) keepToken(ctx context.Context, pod *corev1.Pod, file string, ready func()) {
	for {
		pause := retryInterval
		expiry, err := s.requestToken(ctx, pod, file)
		switch {
		case ctx.Err() != nil || apierrors.IsNotFound(err):
			return
		case err != nil:
			s.options.Log.Warn("cannot get token", "pod", pod.Name, "error", err)
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

// requestToken requests a token that is bound to the pod.
func (s *AgentSet) requestToken(ctx context.Context, pod *corev1.Pod, file string) (expires time.Time, err error) {
	wanted := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: new(int64(tokenSeconds)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	made, err := s.api.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, wanted, metav1.CreateOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("request token: %w", err)
	}
	return made.Status.ExpirationTimestamp.Time, writeFileAtomically(file, made.Status.Token)
}

// writeCA writes the CA of a swarm for its agents.
func (s *AgentSet) writeCA(config *corev1.ConfigMap) {
	if config.Name != config.Labels[v1alpha1.LabelSwarm]+"-config" || config.Data[caKey] == "" {
		return
	}
	if err := writeFileAtomically(s.caFile(config.Namespace, config.Name), config.Data[caKey]); err != nil {
		s.options.Log.Error("cannot write the CA for agents", "namespace", config.Namespace, "error", err)
	}
}

func (s *AgentSet) caFile(namespace, config string) string {
	return filepath.Join(s.folder, namespace+"_"+config+".crt")
}

// writeFileAtomically replaces a file: a reader finds all of the old or all of the new content.
func writeFileAtomically(file, content string) error {
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return os.Rename(file+".new", file)
}
