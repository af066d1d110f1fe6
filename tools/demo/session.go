package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// refreshInterval is how often the clock on the screen moves.
	refreshInterval = 100 * time.Millisecond
	// swarmNoticeTimeout is how long the operator may take to notice a new swarm.
	swarmNoticeTimeout = 20 * time.Second
)

var (
	errTimeout     = errors.New("time is up")
	errInterrupted = errors.New("interrupted")
	errNoOperator  = errors.New("unattended")
)

// A session is one run of the demo, as the viewer sees it.
type session struct {
	swarms, tasks *objectWatcher
	changed       chan struct{}
	start         time.Time

	last  demoState
	first time.Duration // when the first task was done
}

func newSession(c cluster, wanted demoManifests, began time.Time) *session {
	changed := make(chan struct{}, 1)
	s := &session{swarms: newObjectWatcher(c.resource(swarms), changed), tasks: newObjectWatcher(c.resource(tasks), changed), changed: changed,
		start: began}
	s.last.swarm.Name = wanted.swarm.GetName()
	for _, object := range wanted.tasks {
		s.last.tasks = append(s.last.tasks, taskOf(object, task{}))
	}
	return s
}

// watch shows what happens until every task has ended, or the context has.
func (s *session) watch(ctx context.Context, on display) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	go s.swarms.run(following)
	go s.tasks.run(following)
	clock := time.NewTicker(refreshInterval)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.changed:
		case <-clock.C:
		}
		s.update(time.Since(s.start))
		on.draw(s.last)
		switch {
		case s.last.isOver():
			return nil
		case !s.last.swarm.isReconciled() && s.last.connectionError == "" && s.last.elapsed > swarmNoticeTimeout:
			return errNoOperator
		}
	}
}

// update takes in what the boards have seen.
func (s *session) update(elapsed time.Duration) {
	found, trouble := s.swarms.snapshot()
	current := demoState{swarm: swarm{Name: s.last.swarm.Name}, elapsed: elapsed, connectionError: trouble}
	for _, object := range found {
		if object.GetName() == current.swarm.Name {
			current.swarm = swarmOf(object)
		}
	}
	current.tasks = s.updateTasks(&current)
	if current.doneTasks() > 0 && s.first == 0 {
		s.first = elapsed
	}
	s.last = current
}

// updateTasks keeps their order, and the last known state of tasks that cannot be seen.
func (s *session) updateTasks(now *demoState) []task {
	objects, trouble := s.tasks.snapshot()
	if now.connectionError == "" {
		now.connectionError = trouble
	}
	result := slices.Clone(s.last.tasks)
	for n, before := range result {
		at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() == before.Name })
		if at >= 0 {
			result[n] = taskOf(objects[at], before)
		}
	}
	return result
}

// explain returns why the show ended early, and what to do about it.
func (s *session) explain(err error, patience time.Duration, next hints) error {
	checkCommand := fmt.Sprintf("%s -n %s get pods", next.kubectl, namespace)
	switch {
	case errors.Is(err, errNoOperator):
		return fmt.Errorf("swarm %s has no status: is the operator running? %s -n swarm-system get pods", s.last.swarm.Name, next.kubectl)
	case !errors.Is(err, errTimeout):
		return err
	case !s.last.swarm.ready():
		return fmt.Errorf("swarm %s is not Ready after %s: %s (see %s)", s.last.swarm.Name, patience, s.last.swarm.explanation(), checkCommand)
	}
	return fmt.Errorf("after %s: %w (see %s)", patience, checkCompleted(s.last), checkCommand)
}

// runOnDisplay watches on a display that is put in order again, whatever happens.
func (s *session) runOnDisplay(ctx context.Context, out *os.File) error {
	on := newDisplay(out)
	defer on.close()
	return s.watch(ctx, on)
}

// printSummary has the last word, and fails when a task did.
func (s *session) printSummary(out *os.File, opts options) error {
	if err := checkCompleted(s.last); err != nil {
		return err
	}
	for _, each := range summary(s.last, s.first, opts.next) {
		fmt.Fprintln(out, each.text())
	}
	if opts.picture == "" {
		return nil
	}
	return draw(opts.picture, s.last, s.first)
}
