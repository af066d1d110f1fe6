package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// prepare brings up what is missing, and returns the kubeconfig of the cluster. The development cluster comes up unless another is named,
// the operator is installed, and the image of the agents is built unless it is named.
func (h host) prepare(ctx context.Context, opts options) (string, error) {
	kubeconfig := opts.kubeconfigPath()
	if kubeconfig == "" {
		var err error
		if kubeconfig, err = h.ensureDevcluster(ctx); err != nil {
			return "", err
		}
	}
	if err := h.installOperator(ctx, kubeconfig, opts.version); err != nil {
		return "", err
	}
	if opts.image == "" {
		return kubeconfig, h.buildImage(ctx, opts.version)
	}
	return kubeconfig, nil
}

// ensureDevcluster brings the development cluster up unless it runs, and returns its kubeconfig.
func (h host) ensureDevcluster(ctx context.Context) (string, error) {
	status, err := h.devcluster(ctx, "status").Output()
	if err != nil {
		if err := h.run(ctx, h.root, "make", "--no-print-directory", "up"); err != nil {
			return "", err
		}
		if status, err = h.devcluster(ctx, "status").Output(); err != nil {
			return "", fmt.Errorf("read status of the development cluster: %w", err)
		}
	}
	return kubeconfigIn(string(status))
}

// kubeconfigIn returns the kubeconfig that `devcluster status` prints.
func kubeconfigIn(status string) (string, error) {
	for text := range strings.Lines(status) {
		if path, ok := strings.CutPrefix(text, "kubeconfig"); ok {
			return strings.TrimSpace(path), nil
		}
	}
	return "", errors.New("read status of the development cluster: it has no kubeconfig")
}

// installOperator builds and installs the operator, by the target that users know, with the variables that make was called with.
func (h host) installOperator(ctx context.Context, kubeconfig, version string) error {
	command := h.command(ctx, h.root, "make", "--no-print-directory", "install", "KUBECONFIG="+kubeconfig, "VERSION="+version)
	output, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("install the operator: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("install the operator: %w", err)
	}
	if err := errors.Join(copyInstallOutput(h.out, output), command.Wait()); err != nil {
		return fmt.Errorf("install the operator: %w", err)
	}
	return nil
}

// copyInstallOutput omits the images, the applied objects, and the advice that follows the first empty line.
func copyInstallOutput(out io.Writer, in io.Reader) error {
	lines, inAdvice := bufio.NewScanner(in), false
	for lines.Scan() {
		text := lines.Text()
		inAdvice = inAdvice || text == ""
		isImage := strings.HasPrefix(text, "bin/images") && strings.Contains(text, "sha256")
		if inAdvice || isImage || strings.HasSuffix(text, "serverside-applied") {
			continue
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return lines.Err()
}

// buildImage builds the image of the agents as a tarball.
func (h host) buildImage(ctx context.Context, version string) error {
	quiet := host{root: h.root, out: io.Discard}
	return quiet.run(ctx, filepath.Join(h.root, "tools"), "go", "run", "./image",
		"--version", version, "--platforms", "linux/"+runtime.GOARCH, "--services", "swarm-research")
}

// run waits for a program whose output the user sees.
func (h host) run(ctx context.Context, folder, name string, arguments ...string) error {
	command := h.command(ctx, folder, name, arguments...)
	command.Stdout = h.out
	if err := command.Run(); err != nil {
		return fmt.Errorf("run %s %s: %w", name, strings.Join(arguments, " "), err)
	}
	return nil
}

// command is not killed when the context is canceled: the terminal sends an interrupt to every program, and each has to clean up first.
func (h host) command(ctx context.Context, folder, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.Stderr = folder, os.Stderr
	command.Cancel = func() error { return nil }
	return command
}
