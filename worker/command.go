package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/nonblocking"
	"github.com/swarm-io/swarm-operator/worker/internal/process"
)

// variablePrefix is the prefix of the worker's own variables; a program gets only those that are meant for it.
const variablePrefix = "SWARM_"

// outputTimeout is how long a program blocks while nothing reads its output. It is shorter than the time after which the pipes of an ended
// program are closed, so that no job stops late.
const outputTimeout = 250 * time.Millisecond

// Pauses before an ended program is restarted. After a run of at least the longest pause, the next pause is the first again.
const (
	initialBackoff = time.Second
	maxBackoff     = time.Minute
)

// Command runs a program for each job, and restarts it whenever it ends. The program gets the container's environment, SWARM_JOB and
// SWARM_WORKER. Its output goes to stdout and stderr, each line prefixed with the name of its job. To stop it, its process group gets
// SIGTERM and after config.Grace, or when the context of Stop ends, SIGKILL.
func Command(config Config, stdout, stderr io.Writer, argv ...string) (Jobs, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("make jobs of a command: no program given")
	}
	jobs := &commandJobs{argv: argv, worker: config.Worker, grace: config.Grace, log: config.log(), running: map[string]*jobRun{}}
	jobs.outputs = [2]*nonblocking.Writer{newOutputWriter(stdout), newOutputWriter(stderr)}
	jobs.stdout, jobs.stderr = &process.LineSink{To: jobs.outputs[0]}, &process.LineSink{To: jobs.outputs[1]}
	return jobs, nil
}

// newOutputWriter returns a writer that drops output that is not read. Once the output is read again, a line reports how much was dropped.
func newOutputWriter(output io.Writer) *nonblocking.Writer {
	return nonblocking.NewWriter(output, outputTimeout, func(dropped int) {
		_, _ = fmt.Fprintf(output, "swarm-worker: dropped %d lines of output because they were not read\n", dropped)
	})
}

type commandJobs struct {
	argv           []string
	worker         string
	grace          time.Duration
	log            *slog.Logger
	outputs        [2]*nonblocking.Writer
	stdout, stderr *process.LineSink

	mu      sync.Mutex
	running map[string]*jobRun
}

// A jobRun is a started job, whether its program runs or waits for its restart.
type jobRun struct {
	stop  chan struct{} // closed to request the end
	force chan struct{} // closed to force the end
	done  chan struct{} // closed at the end

	stopOnce, forceOnce sync.Once
}

func newJobRun() *jobRun {
	return &jobRun{stop: make(chan struct{}), force: make(chan struct{}), done: make(chan struct{})}
}

// requestStop and compel never block.
func (r *jobRun) requestStop() { r.stopOnce.Do(func() { close(r.stop) }) }
func (r *jobRun) forceStop()   { r.forceOnce.Do(func() { close(r.force) }) }

// Start starts the program and keeps it running until Stop. A program that cannot be started is no error: it is retried as if it had ended
// at once.
func (p *commandJobs) Start(_ context.Context, job string) error {
	run := newJobRun()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[job] = run
	go func() {
		defer close(run.done)
		p.restartLoop(job, run)
	}()
	return nil
}

// Stop stops the program and waits for the end of its process group, which it kills when the context ends.
func (p *commandJobs) Stop(ctx context.Context, job string) error {
	p.mu.Lock()
	run := p.running[job]
	p.mu.Unlock()
	if run == nil {
		return nil
	}
	run.requestStop()
	defer context.AfterFunc(ctx, run.forceStop)()
	<-run.done
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, job)
	return nil
}

// kill ends a job by force, whether or not it is being stopped, and does not wait for its end.
func (p *commandJobs) kill(job string) {
	p.mu.Lock()
	run := p.running[job]
	p.mu.Unlock()
	if run != nil {
		run.requestStop()
		run.forceStop()
	}
}

// flush waits, up to a limit, until all output is written.
func (p *commandJobs) flush(timeout time.Duration) {
	for _, output := range p.outputs {
		output.Flush(timeout)
	}
}

// restartLoop runs the program repeatedly.
func (p *commandJobs) restartLoop(job string, run *jobRun) {
	backoff := time.Duration(0)
	for {
		start := time.Now()
		exit, err := p.runOnce(job, run)
		backoff = nextBackoff(backoff, time.Since(start))
		select {
		case <-run.stop:
			return
		default:
		}
		if err != nil {
			p.log.Warn("program did not start", "job", job, "error", err, "again", backoff.String())
		} else {
			p.log.Warn("program ended", "job", job, "how", exit, "again", backoff.String())
		}
		select {
		case <-run.stop:
			return
		case <-time.After(backoff):
		}
	}
}

// nextBackoff doubles the pause, and resets it after a program that ran long enough.
func nextBackoff(previous, runTime time.Duration) time.Duration {
	if runTime >= maxBackoff {
		return initialBackoff
	}
	return min(max(2*previous, initialBackoff), maxBackoff)
}

func (p *commandJobs) runOnce(job string, run *jobRun) (string, error) {
	stdout, stderr := p.stdout.WithLabel(job), p.stderr.WithLabel(job)
	defer stdout.Flush()
	defer stderr.Flush()
	return process.Program{
		Command: p.argv, Environment: environment(os.Environ(), p.worker, job),
		Stdout: stdout, Stderr: stderr, Grace: p.grace,
	}.Run(run.stop, run.force)
}

// environment returns the container's variables, then ours, which cannot be overridden.
func environment(container []string, worker, job string) []string {
	isOwn := func(variable string) bool { return strings.HasPrefix(variable, variablePrefix) }
	variables := slices.DeleteFunc(slices.Clone(container), isOwn)
	return append(variables, "SWARM_JOB="+job, "SWARM_WORKER="+worker)
}
