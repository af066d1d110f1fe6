package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/swarm-io/swarm-operator/devcluster/internal/node"
	"github.com/swarm-io/swarm-operator/devcluster/internal/supervise"
)

// Load puts the images of a tarball onto every real node.
func (c *Cluster) Load(ctx context.Context, archive string) error {
	if _, err := os.Stat(archive); err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	if c.Options.RealNodes == 0 {
		return errors.New("this cluster has no real node to load images onto: bring it up with --real-nodes 1")
	}
	supervisors, err := supervise.Find(c.Data)
	if err != nil {
		return err
	}
	for n := 1; n <= c.Options.RealNodes; n++ {
		pid, running := supervisors[nodeName(n)]
		if !running {
			return fmt.Errorf("%s is not running: run `devcluster down` and `devcluster up`", nodeName(n))
		}
		if err := load(ctx, pid, archive); err != nil {
			return fmt.Errorf("load %s onto %s: %w", archive, nodeName(n), err)
		}
	}
	return nil
}

// load hands a tarball to the container runtime of the node whose first process is pid.
func load(ctx context.Context, pid int, archive string) error {
	if err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		return ctr(ctx, pid, "--connect-timeout", (2*time.Second).String(), "version").Run() == nil, nil
	}); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("interrupted while waiting for containerd: %w", cause)
		}
		return fmt.Errorf("wait for containerd: %w", err)
	}
	text, err := ctr(ctx, pid, "--namespace", "k8s.io", "images", "import", archive).CombinedOutput()
	if err != nil {
		return fmt.Errorf("import: %w: %s", err, strings.TrimSpace(string(text)))
	}
	return nil
}

// ctr talks to the container runtime of a node. It dies with this program, so that `down` after a killed `up` does not meet it.
func ctr(ctx context.Context, pid int, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "ctr", append([]string{"--address", node.Socket(pid)}, args...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}
