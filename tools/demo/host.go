package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

// A host is the machine that the development cluster runs on: the repository with its programs.
type host struct {
	root string
	out  io.Writer
}

func (h host) devcluster(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(h.root, "bin", "devcluster"), arguments...)
	command.Dir = h.root
	return command
}

// isDevcluster reports whether the API server is that of the development cluster (DEVCLUSTER_DATA, or the default one).
func (h host) isDevcluster(ctx context.Context, server string) bool {
	text, err := h.devcluster(ctx, "kubeconfig").Output()
	if err != nil {
		return false // there is none
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return false
	}
	for _, known := range config.Clusters {
		if known.Server == server {
			return true
		}
	}
	return false
}

// loadImage puts the image onto the nodes of the development cluster. On another it can only say what is needed.
func (h host) loadImage(ctx context.Context, server, image, tarball string) error {
	if !h.isDevcluster(ctx, server) {
		_, err := fmt.Fprintf(h.out,
			"not our development cluster: its nodes need the image %s (%s), or push it and name it with DEMO_IMAGE=...\n", image, tarball)
		return err
	}
	out, err := h.devcluster(ctx, "image", "load", tarball).CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("load image %s: %w", image, err), errors.New(string(out)))
	}
	return nil
}
