package operator

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
)

// Build is what the linker knows of a program.
type Build struct{ Version, Commit, Date string }

func (b Build) String() string {
	return fmt.Sprintf("swarm-operator %s (commit %s, %s)", b.Version, b.Commit, b.Date)
}

// ownNamespace is where a pod finds the name of its namespace.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Command is the program: it reads flags, files and environment, and runs.
func Command(ctx context.Context, arguments []string, build Build, out io.Writer) error {
	flags := flag.NewFlagSet("swarm-operator", flag.ContinueOnError)
	file := flags.String("config", "", "configuration file; every key can also be set as SWARM_<PATH> in the environment")
	image := flags.String("agent-image", "localhost/swarm-agent:"+build.Version, "image that holds /swarm-agent")
	namespace := flags.String("namespace", "", "the operator's own namespace (default: that of its pod, else swarm-system)")
	version := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *version {
		_, err := fmt.Fprintln(out, build)
		return err
	}
	config, err := Load(*file, os.Environ())
	if err != nil {
		return err
	}
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find a cluster: %w: set KUBECONFIG, or run in a pod", err)
	}
	return Run(ctx, config, Surroundings{
		Cluster: cluster, Namespace: orOwn(*namespace), Pod: podName(), Host: os.Getenv("POD_IP"),
		Image: *image, Version: build.Version, Log: os.Stderr,
	})
}

// orOwn is the namespace that was asked for, else the one that the pod is in.
func orOwn(namespace string) string {
	if namespace != "" {
		return namespace
	}
	text, err := os.ReadFile(ownNamespace)
	if err != nil {
		return "swarm-system"
	}
	return strings.TrimSpace(string(text))
}

func podName() string {
	if name := os.Getenv("POD_NAME"); name != "" {
		return name
	}
	host, _ := os.Hostname() // outside of a pod any name will do: kit adds a fresh id
	return "local-" + host
}
