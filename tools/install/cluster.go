package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// namespace is the operator's.
const namespace = "swarm-system"

// A cluster is reached by kubectl, which our development cluster's program brings.
type cluster struct {
	root       string // of the repository, from where DEVCLUSTER_DATA counts
	kubeconfig string
	out        io.Writer
	stderr     io.Writer
}

// kubectl runs it with its output visible to the user.
func (c cluster) kubectl(ctx context.Context, arguments ...string) error {
	command := c.command(ctx, arguments)
	command.Stdout, command.Stderr = c.out, c.stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(arguments, " "), err)
	}
	return nil
}

// kubectlOutput is what kubectl prints.
func (c cluster) kubectlOutput(ctx context.Context, arguments ...string) (string, error) {
	command := c.command(ctx, arguments)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func (c cluster) command(ctx context.Context, arguments []string) *exec.Cmd {
	return c.devcluster(ctx, append([]string{"kubectl", "--kubeconfig=" + c.kubeconfig}, arguments...))
}

func (c cluster) devcluster(ctx context.Context, arguments []string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(c.root, "bin", "devcluster"), arguments...)
	command.Dir = c.root
	return command
}

// isDevcluster reports whether the cluster is our development cluster (DEVCLUSTER_DATA, or the default one), by the API server's address.
func (c cluster) isDevcluster(ctx context.Context) (bool, error) {
	server, err := c.kubectlOutput(ctx, "config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}")
	if err != nil {
		return false, err
	}
	text, err := c.devcluster(ctx, []string{"kubeconfig"}).Output()
	if err != nil {
		return false, nil //nolint:nilerr // there is no development cluster, so this is not it
	}
	servers, err := serversIn(text)
	return slices.Contains(servers, server), err
}

// serversIn are the addresses of API servers that a kubeconfig knows.
func serversIn(kubeconfig []byte) ([]string, error) {
	var content struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if err := yaml.Unmarshal(kubeconfig, &content); err != nil {
		return nil, fmt.Errorf("read kubeconfig of the development cluster: %w", err)
	}
	var servers []string
	for _, known := range content.Clusters {
		servers = append(servers, known.Cluster.Server)
	}
	return servers, nil
}

// load puts tarballs onto the nodes of our development cluster.
func (c cluster) load(ctx context.Context, tarballs []string) error {
	command := c.devcluster(ctx, append([]string{"image", "load"}, tarballs...))
	command.Stdout, command.Stderr = c.out, c.stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("load images: %w", err)
	}
	return nil
}
