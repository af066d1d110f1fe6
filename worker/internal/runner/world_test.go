package runner

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/watchdog"
	"github.com/swarm-io/swarm-operator/worker/internal/filewatch"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

const worker = "swarm-worker-0"

// A testRunner is one runner in a bubble with its own time, with jobs that the test controls. It is also its journal and its status, and
// checks the invariants at each call.
type testRunner struct {
	startTakes, stopTakes map[string]time.Duration // by job
	startFails, stopFails map[string]int           // how often
	forceable             map[string]bool          // whether the end of the context ends a stop

	files       chan []filewatch.Snapshot
	leaseStates chan lease.State
	watchdog    *watchdog.Watchdog
	journalGate blockableGate // the journal, while it is locked
	cancel      context.CancelFunc
	done        chan error

	mu         sync.Mutex
	problems   []string
	killed     []string // once each
	running    map[string]context.Context
	busy       map[string]bool
	lists      map[int64]string // content of each version, jobs with blanks between
	log        []string
	version    int64
	config     int64
	minVersion int64
	problem    string
}

func newTestRunner() *testRunner {
	return &testRunner{
		startTakes: map[string]time.Duration{}, stopTakes: map[string]time.Duration{}, startFails: map[string]int{}, stopFails: map[string]int{},
		forceable: map[string]bool{},
		files:     make(chan []filewatch.Snapshot), done: make(chan error, 1),
		running: map[string]context.Context{}, busy: map[string]bool{}, lists: map[int64]string{},
	}
}

func (w *testRunner) run() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() {
		w.done <- Run(ctx, Config{Worker: worker, Jobs: w, Journal: w, Status: w, Log: slog.New(slog.DiscardHandler), LeaseStates: w.leaseStates,
			Watchdog: w.watchdog, Kill: w.kill}, w.files)
	}()
}

// stop stops the runner, as SIGTERM does, and returns all violations so far.
func (w *testRunner) stop() (string, error) {
	w.cancel()
	err := <-w.done
	if len(w.running) > 0 && err == nil {
		w.recordProblem("at the end %v still run", w.runningJobs())
	}
	return strings.Join(w.problems, "\n"), err
}

// runTest runs a test in a bubble, without faults in the end.
func runTest(t *testing.T, test func(t *testing.T, w *testRunner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newTestRunner()
		w.run()
		test(t, w)
		if wrong, err := w.stop(); wrong != "" || err != nil {
			t.Errorf("%s %v", wrong, err)
		}
	})
}

var missingFile = filewatch.Snapshot{Err: fs.ErrNotExist}

func newFile(version int64, jobs string) filewatch.Snapshot {
	return filewatch.Snapshot{Content: fmt.Appendf(nil,
		"version: %d\nworkloads:\n  %s: {jobs: [%s], version: %d}\n  swarm-worker-1: {jobs: [theirs], version: 1}\n",
		version, worker, strings.Join(strings.Fields(jobs), ", "), version)}
}

// publish sends a list to the runner; the annotation is not mounted.
func (w *testRunner) publish(version int64, jobs string) { w.publishFiles(version, jobs, missingFile) }

// publishAbove sends a list together with an annotation.
func (w *testRunner) publishAbove(version int64, jobs, floor string) {
	w.publishFiles(version, jobs, filewatch.Snapshot{Content: []byte(floor)})
}

func (w *testRunner) publishFiles(version int64, jobs string, minVersionFile filewatch.Snapshot) {
	synctest.Wait() // what happens at the same moment happens before
	w.mu.Lock()
	w.lists[version] = jobs
	required, _ := strconv.ParseInt(strings.TrimSpace(string(minVersionFile.Content)), 10, 64)
	w.minVersion = max(w.minVersion, required)
	w.mu.Unlock()
	w.files <- []filewatch.Snapshot{newFile(version, jobs), minVersionFile}
	synctest.Wait()
}

func (w *testRunner) recordProblem(format string, arguments ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, arguments...))
}

func (w *testRunner) runningJobs() []string { return slices.Sorted(maps.Keys(w.running)) }

func (w *testRunner) logCall(format string, arguments ...any) {
	w.log = append(w.log, fmt.Sprintf(format, arguments...))
}

// beginCall records that a call for the job is in progress; no other may be.
func (w *testRunner) beginCall(job, call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[job] {
		w.recordProblem("%s %s during another call for it", call, job)
	}
	w.busy[job] = true
}

func (w *testRunner) Start(ctx context.Context, job string) error {
	w.beginCall(job, "Start")
	w.mu.Lock()
	if w.running[job] != nil {
		w.recordProblem("%s starts and runs already", job)
	}
	w.running[job] = ctx
	takes := w.startTakes[job]
	w.mu.Unlock()
	time.Sleep(takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[job] = false
	if w.startFails[job] > 0 {
		w.startFails[job]--
		delete(w.running, job)
		return fmt.Errorf("%s is broken", job)
	}
	return nil
}

func (w *testRunner) Stop(ctx context.Context, job string) error {
	w.beginCall(job, "Stop")
	w.mu.Lock()
	switch {
	case w.running[job] == nil:
		w.recordProblem("%s stops and does not run", job)
	case w.running[job].Err() == nil:
		w.recordProblem("%s stops and its context goes on", job)
	}
	if ctx.Err() != nil && w.leaseStates == nil {
		w.recordProblem("Stop %s has no time", job)
	}
	takes, forced := w.stopTakes[job], ctx.Done()
	if !w.forceable[job] {
		forced = nil
	}
	w.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-forced:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[job] = false
	if w.stopFails[job] > 0 {
		w.stopFails[job]--
		return fmt.Errorf("%s does not heed", job)
	}
	delete(w.running, job)
	return nil
}

func (w *testRunner) Started(job string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logCall("start %s", job)
	if !slices.Contains(strings.Fields(w.lists[w.config]), job) {
		w.recordProblem("%s starts, and the acknowledged list is %q", job, w.lists[w.config])
	}
	if w.config < w.minVersion {
		w.recordProblem("%s starts by version %d, and the annotation asks for %d", job, w.config, w.minVersion)
	}
	for other := range w.running {
		if !slices.Contains(strings.Fields(w.lists[w.config]), other) {
			w.recordProblem("%s starts while %s runs, which is not on its list", job, other)
		}
	}
}

// kill is called by the watchdog, again and again.
func (w *testRunner) kill(job string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.killed, job) {
		w.killed = append(w.killed, job)
	}
}

func (w *testRunner) kills() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.killed)
}

// context is the one that the job was started with.
func (w *testRunner) context(job string) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[job]
}

// A blockableGate lets every goroutine pass while it is open. Unlike for a mutex, a goroutine can wait for it in a synctest bubble.
type blockableGate struct {
	mu     sync.Mutex
	closed chan struct{}
}

func (g *blockableGate) Lock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *blockableGate) Unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed)
	g.closed = nil
}

func (g *blockableGate) wait() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

func (w *testRunner) Stopped(job string, err error) {
	w.journalGate.wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logCall("stop %s", job)
	if w.running[job] != nil {
		w.recordProblem("the journal says that %s has stopped (%v), and it runs", job, err)
	}
}

func (w *testRunner) Acknowledged(_, config int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logCall("acknowledge %d", config)
}

func (w *testRunner) Acknowledge(version, config int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if config != 0 && config < w.config {
		w.recordProblem("%d is acknowledged after %d", config, w.config)
	}
	w.version, w.config = version, config
	for job := range w.running {
		if config != 0 && !slices.Contains(strings.Fields(w.lists[config]), job) {
			w.recordProblem("%d is acknowledged and %s still runs", config, job)
		}
	}
}

func (w *testRunner) Report(problem string, _, _ int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problem = problem
}

// awaitState waits until all goroutines of the bubble are blocked, and returns the state.
func (w *testRunner) awaitState(t *testing.T, running string, config int64) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.runningJobs(), " "); got != running {
		t.Errorf("running %q, want %q", got, running)
	}
	if w.config != config {
		t.Errorf("acknowledged %d, want %d", w.config, config)
	}
}
