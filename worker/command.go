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

	"github.com/swarm-io/swarm-operator/internal/nonblocking"
	"github.com/swarm-io/swarm-operator/worker/internal/process"
)

// ownPrefix begins the names of the worker's own variables; a program gets only those that are meant for it.
const ownPrefix = "SWARM_"

// outputPatience is how long a program waits while its output is not read. It is less than the time after which the pipes of a program that
// has ended are closed, so that no job stops late.
const outputPatience = 250 * time.Millisecond

// Pauses before a program that has ended is started again. After a run of at least the longest pause they begin with the first again.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// Command are jobs that are programs: one process for each job, started again whenever it ends. It gets the container's
// environment, SWARM_JOB and SWARM_WORKER; what it prints goes to stdout and stderr, each line behind its job's name.
// To stop it, its process group gets SIGTERM and after config.Grace, or when the context of Stop ends, SIGKILL.
func Command(config Config, stdout, stderr io.Writer, words ...string) (Jobs, error) {
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("make jobs of a command: no program is named")
	}
	made := &programs{words: words, worker: config.Worker, grace: config.Grace, log: config.log(), running: map[string]*run{}}
	made.outputs = [2]*nonblocking.Writer{unblocked(stdout), unblocked(stderr)}
	made.stdout, made.stderr = &process.Sink{To: made.outputs[0]}, &process.Sink{To: made.outputs[1]}
	return made, nil
}

// unblocked returns a writer that drops output which is not read. Once the output is read again, a line reports how much was dropped.
func unblocked(to io.Writer) *nonblocking.Writer {
	return nonblocking.NewWriter(to, outputPatience, func(dropped int) {
		_, _ = fmt.Fprintf(to, "swarm-worker: dropped %d lines of output because they were not read\n", dropped)
	})
}

type programs struct {
	words          []string
	worker         string
	grace          time.Duration
	log            *slog.Logger
	outputs        [2]*nonblocking.Writer
	stdout, stderr *process.Sink

	mu      sync.Mutex
	running map[string]*run
}

// A run is a job under way, whether its program runs or rests.
type run struct {
	stop  chan struct{} // closed to ask for the end
	force chan struct{} // closed to bring it about
	done  chan struct{} // closed at the end

	askOnce, forceOnce sync.Once
}

func newRun() *run {
	return &run{stop: make(chan struct{}), force: make(chan struct{}), done: make(chan struct{})}
}

// ask and compel never wait.
func (r *run) ask()    { r.askOnce.Do(func() { close(r.stop) }) }
func (r *run) compel() { r.forceOnce.Do(func() { close(r.force) }) }

// Start starts the program, for as long as Stop is not called. That it cannot be started is no error: it is tried again
// as if it had ended at once.
func (p *programs) Start(_ context.Context, job string) error {
	begun := newRun()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[job] = begun
	go func() {
		defer close(begun.done)
		p.keep(job, begun)
	}()
	return nil
}

// Stop waits for the end of the whole process group, and kills it when the context ends.
func (p *programs) Stop(ctx context.Context, job string) error {
	p.mu.Lock()
	ending := p.running[job]
	p.mu.Unlock()
	if ending == nil {
		return nil
	}
	ending.ask()
	defer context.AfterFunc(ctx, ending.compel)()
	<-ending.done
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, job)
	return nil
}

// kill ends a job by force, whether or not it is being stopped, and does not wait for its end.
func (p *programs) kill(job string) {
	p.mu.Lock()
	ending := p.running[job]
	p.mu.Unlock()
	if ending != nil {
		ending.ask()
		ending.compel()
	}
}

// flush waits a while until all output is written.
func (p *programs) flush(patience time.Duration) {
	for _, output := range p.outputs {
		output.Flush(patience)
	}
}

// keep runs the program again and again.
func (p *programs) keep(job string, under *run) {
	pause := time.Duration(0)
	for {
		began := time.Now()
		how, err := p.run(job, under)
		pause = nextPause(pause, time.Since(began))
		select {
		case <-under.stop:
			return
		default:
		}
		if err != nil {
			p.log.Warn("program did not start", "job", job, "error", err, "again", pause.String())
		} else {
			p.log.Warn("program ended", "job", job, "how", how, "again", pause.String())
		}
		select {
		case <-under.stop:
			return
		case <-time.After(pause):
		}
	}
}

// nextPause doubles, and forgets what was before a program that ran well for long enough.
func nextPause(last, ran time.Duration) time.Duration {
	if ran >= longestPause {
		return firstPause
	}
	return min(max(2*last, firstPause), longestPause)
}

func (p *programs) run(job string, under *run) (string, error) {
	stdout, stderr := p.stdout.Labelled(job), p.stderr.Labelled(job)
	defer stdout.Flush()
	defer stderr.Flush()
	return process.Program{
		Command: p.words, Environment: environment(os.Environ(), p.worker, job),
		Stdout: stdout, Stderr: stderr, Grace: p.grace,
	}.Run(under.stop, under.force)
}

// environment is the container's own, then ours, which cannot be overridden.
func environment(container []string, worker, job string) []string {
	isOwn := func(variable string) bool { return strings.HasPrefix(variable, ownPrefix) }
	list := slices.DeleteFunc(slices.Clone(container), isOwn)
	return append(list, "SWARM_JOB="+job, "SWARM_WORKER="+worker)
}
