package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A lane runs one suite after another.
type lane struct {
	*runner
	number  int
	kind    kind
	cluster *cluster
}

// runSuite runs a suite on a cluster of its kind, and keeps what explains a failure.
func (l *lane) runSuite(ctx context.Context, s suite) result {
	began := time.Now()
	l.printf("lane %d: %s", l.number, s.name)
	outcome := result{suite: s, log: l.results("logs", s.report()+".log")}
	log, err := os.Create(outcome.log)
	if err == nil {
		err = l.runSuiteTo(ctx, s, log)
		err = errors.Join(err, log.Close())
	}
	outcome.err, outcome.duration = err, time.Since(began)
	outcome.read(l.runner)
	if outcome.hasFailed() {
		outcome.artifacts = l.results("failures", s.report())
		l.saveArtifacts(outcome)
	}
	return outcome
}

func (l *lane) runSuiteTo(ctx context.Context, s suite, log *os.File) error {
	if s.folder == "" {
		return l.runUnitTests(ctx, s.modules, log)
	}
	if err := l.ensureClusterInTime(ctx, s.kind, log); err != nil {
		return err
	}
	command := l.command(ctx, log, s.binary(l.root), l.arguments(s)...)
	command.Dir = filepath.Join(l.root, s.folder)
	command.Env = append(os.Environ(), l.environment()...)
	return command.Run()
}

// arguments of a compiled suite. Its own limit comes first: it interrupts the spec, reports its location, and lets it clean up. The limit
// of the testing package dumps all goroutines.
func (l *lane) arguments(s suite) []string {
	arguments := []string{
		"-test.v", "-test.timeout=" + (l.timeout + 2*time.Minute).String(), "-ginkgo.timeout=" + l.timeout.String(),
		"-ginkgo.poll-progress-after=3m", "-ginkgo.succinct", "-ginkgo.no-color", "-ginkgo.json-report=" + l.results(s.report()+".json"),
	}
	if l.focus != "" {
		arguments = append(arguments, "-ginkgo.focus="+l.focus)
	}
	return arguments
}

func (l *lane) environment() []string {
	if l.cluster == nil {
		return nil
	}
	return l.cluster.environment
}

// ensureClusterInTime is bring, interrupted when it takes longer than a suite may.
func (l *lane) ensureClusterInTime(ctx context.Context, wanted kind, log *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, fmt.Errorf("the cluster was not ready after %s", l.timeout))
	defer cancel()
	if err := l.ensureCluster(ctx, wanted, log); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// ensureCluster makes sure that the lane has a cluster of the kind. A cluster on which that failed stays until the next suite, so that what
// explains the failure can be kept, but has no kind: the next suite gets a new one.
func (l *lane) ensureCluster(ctx context.Context, k kind, log *os.File) error {
	if l.kind == k {
		return nil
	}
	l.close()
	if k != noCluster {
		if err := l.create(ctx, k, log); err != nil {
			return err
		}
	}
	l.kind = k
	return nil
}

// create brings up a cluster of the kind, with the operator if the kind has it.
func (l *lane) create(ctx context.Context, wanted kind, log *os.File) (err error) {
	if l.cluster, err = l.startCluster(ctx, wanted, log); err != nil {
		return fmt.Errorf("bring up a cluster: %w", err)
	}
	if wanted != realNodes {
		return nil
	}
	began := time.Now()
	prepare := l.command(ctx, log, "make", "--no-print-directory", "e2e-cluster", "KUBECONFIG="+l.cluster.kubeconfig())
	prepare.Env = append(os.Environ(), l.cluster.environment...)
	if err := prepare.Run(); err != nil {
		return fmt.Errorf("install the operator: %w", err)
	}
	l.printf("lane %d: installed the operator in %s", l.number, time.Since(began).Round(time.Second))
	return nil
}

// close takes the lane's cluster away.
func (l *lane) close() {
	if l.cluster != nil {
		l.cluster.stop()
	}
	l.cluster, l.kind = nil, ""
}
