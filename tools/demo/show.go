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
	// beat is how often the clock on the screen moves.
	beat = 100 * time.Millisecond
	// unseen is how long the operator may take to notice a new swarm.
	unseen = 20 * time.Second
)

var (
	errTimeout     = errors.New("time is up")
	errInterrupted = errors.New("interrupted")
	errUnattended  = errors.New("unattended")
)

// A show is one run of the demo, as the viewer sees it.
type show struct {
	swarms, tasks *board
	changed       chan struct{}
	began         time.Time

	last  scene
	first time.Duration // when the first task was done
}

func newShow(at cluster, wanted play, began time.Time) *show {
	changed := make(chan struct{}, 1)
	s := &show{swarms: newBoard(at.in(swarms), changed), tasks: newBoard(at.in(tasks), changed), changed: changed, began: began}
	s.last.swarm.Name = wanted.swarm.GetName()
	for _, object := range wanted.tasks {
		s.last.tasks = append(s.last.tasks, taskOf(object, task{}))
	}
	return s
}

// watch shows what happens until every task has ended, or the context has.
func (s *show) watch(ctx context.Context, on display) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	go s.swarms.follow(following)
	go s.tasks.follow(following)
	clock := time.NewTicker(beat)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.changed:
		case <-clock.C:
		}
		s.look(time.Since(s.began))
		on.show(s.last)
		switch {
		case s.last.over():
			return nil
		case !s.last.swarm.seen() && s.last.trouble == "" && s.last.elapsed > unseen:
			return errUnattended
		}
	}
}

// look takes in what the boards have seen.
func (s *show) look(elapsed time.Duration) {
	found, trouble := s.swarms.seen()
	now := scene{swarm: swarm{Name: s.last.swarm.Name}, elapsed: elapsed, trouble: trouble}
	for _, object := range found {
		if object.GetName() == now.swarm.Name {
			now.swarm = swarmOf(object)
		}
	}
	now.tasks = s.lookAtTasks(&now)
	if now.done() > 0 && s.first == 0 {
		s.first = elapsed
	}
	s.last = now
}

// lookAtTasks keeps their order, and the last known state of tasks that cannot be seen.
func (s *show) lookAtTasks(now *scene) []task {
	found, trouble := s.tasks.seen()
	if now.trouble == "" {
		now.trouble = trouble
	}
	all := slices.Clone(s.last.tasks)
	for n, before := range all {
		at := slices.IndexFunc(found, func(o *unstructured.Unstructured) bool { return o.GetName() == before.Name })
		if at >= 0 {
			all[n] = taskOf(found[at], before)
		}
	}
	return all
}

// explain returns why the show ended early, and what to do about it.
func (s *show) explain(err error, patience time.Duration, next hints) error {
	look := fmt.Sprintf("%s -n %s get pods", next.kubectl, namespace)
	switch {
	case errors.Is(err, errUnattended):
		return fmt.Errorf("swarm %s has no status: is the operator running? %s -n swarm-system get pods", s.last.swarm.Name, next.kubectl)
	case !errors.Is(err, errTimeout):
		return err
	case !s.last.swarm.ready():
		return fmt.Errorf("swarm %s is not Ready after %s: %s (see %s)", s.last.swarm.Name, patience, s.last.swarm.explanation(), look)
	}
	return fmt.Errorf("after %s: %w (see %s)", patience, verdict(s.last), look)
}

// toTheEnd watches on a display that is put in order again, whatever happens.
func (s *show) toTheEnd(ctx context.Context, out *os.File) error {
	on := displayOn(out)
	defer on.close()
	return s.watch(ctx, on)
}

// conclude has the last word, and fails when a task did.
func (s *show) conclude(out *os.File, chosen options) error {
	if err := verdict(s.last); err != nil {
		return err
	}
	for _, each := range summary(s.last, s.first, chosen.next) {
		fmt.Fprintln(out, each.text())
	}
	if chosen.picture == "" {
		return nil
	}
	return draw(chosen.picture, s.last, s.first)
}
