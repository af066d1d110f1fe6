package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// kubectl runs the real program, as a user would, and returns its output.
func kubectl(ctx context.Context, arguments ...string) (string, error) {
	return run(ctx, "kubectl", arguments...)
}

// execProbe runs the probe in the container of a pod.
func execProbe(ctx context.Context, pod *corev1.Pod, arguments ...string) (string, error) {
	return kubectl(ctx, append([]string{"exec", "--namespace", pod.Namespace, pod.Name, "--", "/probe"}, arguments...)...)
}

// fetchFrom is the response of an HTTP server to a pod.
func fetchFrom(ctx context.Context, pod *corev1.Pod, url string) (string, error) {
	return execProbe(ctx, pod, "get", "--timeout", "2s", url)
}

// addresses returns the addresses to which a name resolves in a pod.
func addresses(ctx context.Context, pod *corev1.Pod, name string) ([]string, error) {
	found, err := execProbe(ctx, pod, "lookup", "--timeout", "2s", name)
	return strings.Fields(found), err
}

// content returns the content of a file in a pod.
func content(ctx context.Context, pod *corev1.Pod, path string) (string, error) {
	return execProbe(ctx, pod, "cat", path)
}

// devcluster runs the program that created our own cluster.
func devcluster(ctx context.Context, arguments ...string) (string, error) {
	program := os.Getenv("DEVCLUSTER")
	if program == "" {
		program = filepath.Join("..", "..", "..", "bin", "devcluster")
	}
	absolute, err := filepath.Abs(program)
	if err != nil {
		return "", fmt.Errorf("find devcluster: %w", err)
	}
	return run(ctx, absolute, append(arguments, "--data", ownCluster())...)
}

// ownCluster returns the data folder of a cluster whose components we may kill.
func ownCluster() string { return os.Getenv("DEVCLUSTER_DATA") }

func skipUnlessOwnCluster() {
	if ownCluster() == "" {
		Skip("needs our own cluster")
	}
}

// run returns the output of a program without the last newline, also when it failed.
func run(ctx context.Context, program string, arguments ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, 2*timeout)
	defer stop()
	command := exec.CommandContext(ctx, program, arguments...)
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	err := command.Run()
	if err != nil {
		err = fmt.Errorf("run %s: %w: %s", strings.Join(command.Args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return strings.TrimSuffix(out.String(), "\n"), err
}

// exitCode returns the exit code of a program.
func exitCode(err error) int {
	ended, ok := errors.AsType[*exec.ExitError](err)
	Expect(ok).To(BeTrue(), "the program ran and failed: %v", err)
	return ended.ExitCode()
}
