package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/swarm-io/swarm-operator/tools/internal/stamp"
)

// progressEvery is how often a run reports what it is doing.
const progressEvery = time.Minute

// A runner runs suites in lanes.
type runner struct {
	options
	start time.Time

	mu      sync.Mutex
	waiting []suite
	running map[string]time.Time // suites by name, with when they began
	ended   []result
	lanes   []laneTime
}

// A laneTime is how long a lane was busy.
type laneTime struct {
	lane  int
	total time.Duration
}

func newRunner(o options, suites []suite) *runner {
	if o.kubeconfig != "" {
		o.lanes = 1
	}
	return &runner{options: o, start: time.Now(), waiting: suites, running: map[string]time.Time{}}
}

// results is the folder of reports and logs.
func (r *runner) results(elements ...string) string {
	return filepath.Join(append([]string{r.root, "bin", "results"}, elements...)...)
}

// prepare compiles all suites before the first one runs: a compiler beside a suite would make it slow.
func (r *runner) prepare(ctx context.Context) error {
	var planned []string
	for _, s := range r.waiting {
		planned = append(planned, s.reports()...)
	}
	if err := stamp.Write(ctx, r.results(), planned...); err != nil {
		return err
	}
	packages := map[string][]string{}
	for _, s := range r.waiting {
		if s.folder != "" {
			packages[s.level] = append(packages[s.level], "./"+s.folder)
		}
		if err := r.removeResults(s); err != nil {
			return err
		}
	}
	for level, list := range packages {
		began, folder := time.Now(), filepath.Join(r.root, "bin", "suites", level)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("create folder of compiled suites: %w", err)
		}
		slices.Sort(list)
		if err := r.command(ctx, os.Stdout, "go", append([]string{"test", "-c", withoutDWARF, "-o", folder + "/"}, list...)...).
			Run(); err != nil {
			return fmt.Errorf("compile the suites of level %s: %w", level, err)
		}
		r.printf("compiled the suites of level %s in %s", level, time.Since(began).Round(time.Second))
	}
	return nil
}

// removeResults removes what an earlier run has left of a suite.
func (r *runner) removeResults(s suite) error {
	old := []string{r.results("logs", s.report()+".log"), r.results("failures", s.report())}
	for _, report := range s.reports() {
		old = append(old, r.results(report))
	}
	for _, path := range old {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove old results: %w", err)
		}
	}
	return os.MkdirAll(r.results("logs"), 0o755)
}

// command prepares a program in the root of the repository. When the run is interrupted, it is too, and has a minute to clean up; when this
// process is killed, it is killed.
func (r *runner) command(ctx context.Context, output *os.File, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.Stdout, command.Stderr = r.root, output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = time.Minute
	return command
}

// run runs all suites to their end and reports. Unit tests come first and alone: they compute and do not wait, so that beside suites they
// would only slow both.
func (r *runner) run(ctx context.Context) error {
	progress, stop := context.WithCancel(ctx)
	go r.showProgress(progress)
	unit, rest := split(r.waiting, func(s suite) bool { return s.folder == "" })
	r.runIn(ctx, 1, unit)
	r.runIn(ctx, r.options.lanes, rest)
	stop()
	return errors.Join(context.Cause(ctx), r.summarize(os.Stdout))
}

// runIn runs suites in this many lanes.
func (r *runner) runIn(ctx context.Context, count int, suites []suite) {
	r.mu.Lock()
	r.waiting = append(r.waiting[:0:0], suites...)
	r.mu.Unlock()
	var lanes sync.WaitGroup
	for n := range min(count, len(suites)) {
		lanes.Go(func() { r.drive(ctx, n+1) })
	}
	lanes.Wait()
}

func split(all []suite, matches func(suite) bool) (matching, rest []suite) {
	for _, s := range all {
		if matches(s) {
			matching = append(matching, s)
		} else {
			rest = append(rest, s)
		}
	}
	return matching, rest
}

// drive is a lane: it takes suites until none is left.
func (r *runner) drive(ctx context.Context, number int) {
	began := time.Now()
	l := &lane{runner: r, number: number}
	defer l.close()
	for ctx.Err() == nil {
		next, found := r.next(l.kind)
		if !found {
			break
		}
		r.finish(next, l.runSuite(ctx, next))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lanes = append(r.lanes, laneTime{number, time.Since(began)})
}

func (r *runner) next(has kind) (suite, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, rest, found := takeSuite(r.waiting, has)
	if found {
		r.waiting = rest
		r.running[next.name] = time.Now()
	}
	return next, found
}

func (r *runner) finish(s suite, outcome result) {
	r.mu.Lock()
	delete(r.running, s.name)
	r.ended = append(r.ended, outcome)
	r.mu.Unlock()
	r.printf("%s", outcome)
	outcome.explain(os.Stdout)
}

// showProgress prints now and then what runs, so that a long run is not mistaken for one that hangs.
func (r *runner) showProgress(ctx context.Context) {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r.mu.Lock()
		var parts []string
		for name, began := range r.running {
			parts = append(parts, fmt.Sprintf("%s for %s", name, time.Since(began).Round(time.Second)))
		}
		waiting := len(r.waiting)
		r.mu.Unlock()
		slices.Sort(parts)
		r.printf("running: %s; %d waiting", strings.Join(parts, ", "), waiting)
	}
}

// printf prints a line with the time since the run began.
func (r *runner) printf(format string, arguments ...any) {
	fmt.Printf("[%5.0fs] %s\n", time.Since(r.start).Seconds(), fmt.Sprintf(format, arguments...))
}
