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
	"strings"
	"time"
)

// A cluster is a development cluster that lives as long as a pipe to this process, or one that the user has named.
type cluster struct {
	environment []string // by which programs find it
	pipe        io.Closer
	holder      *exec.Cmd
}

// holdScript prints the environment by which programs find the cluster, and waits.
const holdScript = `printf '%s\n' "KUBECONFIG=$KUBECONFIG" "DEVCLUSTER_DATA=$DEVCLUSTER_DATA" "PATH=$PATH"; exec cat >/dev/null`

// startCluster brings up a cluster. The command inside it prints how it is found, and then waits for the end of its input: when this
// process ends, in whatever way, that comes.
func (l *lane) startCluster(ctx context.Context, k kind, log *os.File) (*cluster, error) {
	if l.kubeconfig != "" {
		return &cluster{environment: []string{"KUBECONFIG=" + l.kubeconfig}}, nil
	}
	began := time.Now()
	arguments := append([]string{"run"}, flagsOf[k]...)
	arguments = append(arguments, "--", "sh", "-c", holdScript)
	// An interruption ends the wait below. A running cluster ends when it is released.
	holder := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(l.root, "bin", "devcluster"), arguments...)
	holder.Stderr = log
	pipe, err := holder.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open pipe to the cluster: %w", err)
	}
	output, err := holder.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("open output of the cluster: %w", err)
	}
	if err := holder.Start(); err != nil {
		return nil, fmt.Errorf("start devcluster: %w: run `make build` first", err)
	}
	c := &cluster{pipe: pipe, holder: holder}
	stop := context.AfterFunc(ctx, func() { _ = holder.Process.Signal(os.Interrupt) })
	defer stop()
	if c.environment, err = readEnvironment(output); err != nil {
		c.stop()
		return nil, err
	}
	l.printf("lane %d: brought up a cluster for %s in %s", l.number, k, time.Since(began).Round(time.Second))
	return c, nil
}

// readEnvironment reads the three variables that a holder prints.
func readEnvironment(output io.Reader) ([]string, error) {
	var variables []string
	lines := bufio.NewScanner(output)
	for len(variables) < 3 && lines.Scan() {
		variables = append(variables, lines.Text())
	}
	if len(variables) < 3 {
		return nil, errors.Join(errors.New("devcluster ended before the cluster was there"), lines.Err())
	}
	return variables, nil
}

// kubeconfig is the path of the file by which the cluster is reached.
func (c *cluster) kubeconfig() string {
	return c.variable("KUBECONFIG")
}

func (c *cluster) variable(name string) string {
	for _, one := range c.environment {
		if value, found := strings.CutPrefix(one, name+"="); found {
			return value
		}
	}
	return ""
}

// stop ends the cluster, if it is ours, and returns when it is gone.
func (c *cluster) stop() {
	if c.holder == nil {
		return
	}
	_ = c.pipe.Close()
	_ = c.holder.Wait()
}
