package duty

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

	"github.com/swarm-io/swarm-operator/internal/watchdog"
	"github.com/swarm-io/swarm-operator/worker/internal/mount"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

const worker = "swarm-worker-0"

// A world is one duty in a bubble of its own time, with jobs that follow the test. It is its journal and board, too,
// and checks the invariants at each of their calls.
type world struct {
	startTakes, stopTakes map[string]time.Duration // by job
	startFails, stopFails map[string]int           // how often
	forced                map[string]bool          // whether the end of the context ends a stop

	sights   chan []mount.Sight
	tenures  chan lease.Tenure
	watchdog *watchdog.Watchdog
	stuck    gate // the journal, while it is locked
	cancel   context.CancelFunc
	done     chan error

	mu      sync.Mutex
	wrong   []string
	killed  []string // once each
	runs    map[string]context.Context
	busy    map[string]bool
	lists   map[int64]string // content of each version, jobs with blanks between
	log     []string
	version int64
	config  int64
	floor   int64
	problem string
}

func newWorld() *world {
	return &world{
		startTakes: map[string]time.Duration{}, stopTakes: map[string]time.Duration{}, startFails: map[string]int{}, stopFails: map[string]int{}, forced: map[string]bool{},
		sights: make(chan []mount.Sight), done: make(chan error, 1),
		runs: map[string]context.Context{}, busy: map[string]bool{}, lists: map[int64]string{},
	}
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() {
		w.done <- Run(ctx, Config{Worker: worker, Jobs: w, Journal: w, Board: w, Log: slog.New(slog.DiscardHandler), Tenures: w.tenures, Watchdog: w.watchdog, Kill: w.kill}, w.sights)
	}()
}

// end stops the duty, as SIGTERM does, and returns what went wrong in all the time.
func (w *world) end() (string, error) {
	w.cancel()
	err := <-w.done
	if len(w.runs) > 0 && err == nil {
		w.complain("at the end %v still run", w.running())
	}
	return strings.Join(w.wrong, "\n"), err
}

// in runs a test in a bubble, with a world that goes well in the end.
func in(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run()
		test(t, w)
		if wrong, err := w.end(); wrong != "" || err != nil {
			t.Errorf("%s %v", wrong, err)
		}
	})
}

var absent = mount.Sight{Err: fs.ErrNotExist}

func file(version int64, jobs string) mount.Sight {
	return mount.Sight{Content: fmt.Appendf(nil, "version: %d\nworkloads:\n  %s: {jobs: [%s], version: %d}\n  swarm-worker-1: {jobs: [theirs], version: 1}\n",
		version, worker, strings.Join(strings.Fields(jobs), ", "), version)}
}

// publish shows the duty a list; the annotation is not mounted.
func (w *world) publish(version int64, jobs string) { w.show(version, jobs, absent) }

// publishAbove shows it together with an annotation.
func (w *world) publishAbove(version int64, jobs, floor string) {
	w.show(version, jobs, mount.Sight{Content: []byte(floor)})
}

func (w *world) show(version int64, jobs string, floor mount.Sight) {
	synctest.Wait() // what happens at the same moment happens before
	w.mu.Lock()
	w.lists[version] = jobs
	asked, _ := strconv.ParseInt(strings.TrimSpace(string(floor.Content)), 10, 64)
	w.floor = max(w.floor, asked)
	w.mu.Unlock()
	w.sights <- []mount.Sight{file(version, jobs), floor}
	synctest.Wait()
}

func (w *world) complain(format string, arguments ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, arguments...))
}

func (w *world) running() []string { return slices.Sorted(maps.Keys(w.runs)) }

func (w *world) note(format string, arguments ...any) {
	w.log = append(w.log, fmt.Sprintf(format, arguments...))
}

// begin notes that a call for the job is under way, which no other may be.
func (w *world) begin(job, call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[job] {
		w.complain("%s %s during another call for it", call, job)
	}
	w.busy[job] = true
}

func (w *world) Start(ctx context.Context, job string) error {
	w.begin(job, "Start")
	w.mu.Lock()
	if w.runs[job] != nil {
		w.complain("%s starts and runs already", job)
	}
	w.runs[job] = ctx
	takes := w.startTakes[job]
	w.mu.Unlock()
	time.Sleep(takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[job] = false
	if w.startFails[job] > 0 {
		w.startFails[job]--
		delete(w.runs, job)
		return fmt.Errorf("%s is broken", job)
	}
	return nil
}

func (w *world) Stop(ctx context.Context, job string) error {
	w.begin(job, "Stop")
	w.mu.Lock()
	switch {
	case w.runs[job] == nil:
		w.complain("%s stops and does not run", job)
	case w.runs[job].Err() == nil:
		w.complain("%s stops and its context goes on", job)
	}
	if ctx.Err() != nil && w.tenures == nil {
		w.complain("Stop %s has no time", job)
	}
	takes, forced := w.stopTakes[job], ctx.Done()
	if !w.forced[job] {
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
	delete(w.runs, job)
	return nil
}

func (w *world) Started(job string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("start %s", job)
	if !slices.Contains(strings.Fields(w.lists[w.config]), job) {
		w.complain("%s starts, and the acknowledged list is %q", job, w.lists[w.config])
	}
	if w.config < w.floor {
		w.complain("%s starts by version %d, and the annotation asks for %d", job, w.config, w.floor)
	}
	for other := range w.runs {
		if !slices.Contains(strings.Fields(w.lists[w.config]), other) {
			w.complain("%s starts while %s runs, which is not on its list", job, other)
		}
	}
}

// kill is called by the watchdog, again and again.
func (w *world) kill(job string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.killed, job) {
		w.killed = append(w.killed, job)
	}
}

func (w *world) kills() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.killed)
}

// context is the one that the job was started with.
func (w *world) context(job string) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[job]
}

// A gate lets every goroutine pass while it is open. Unlike a mutex it can be waited for in a bubble of time.
type gate struct {
	mu     sync.Mutex
	closed chan struct{}
}

func (g *gate) Lock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) Unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed)
	g.closed = nil
}

func (g *gate) pass() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

func (w *world) Stopped(job string, err error) {
	w.stuck.pass()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("stop %s", job)
	if w.runs[job] != nil {
		w.complain("the journal says that %s has stopped (%v), and it runs", job, err)
	}
}

func (w *world) Acknowledged(_, config int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("acknowledge %d", config)
}

func (w *world) Acknowledge(version, config int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if config != 0 && config < w.config {
		w.complain("%d is acknowledged after %d", config, w.config)
	}
	w.version, w.config = version, config
	for job := range w.runs {
		if config != 0 && !slices.Contains(strings.Fields(w.lists[config]), job) {
			w.complain("%d is acknowledged and %s still runs", config, job)
		}
	}
}

func (w *world) Report(problem string, _, _ int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problem = problem
}

// expect waits until nothing happens any more without time passing, and looks.
func (w *world) expect(t *testing.T, running string, config int64) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.running(), " "); got != running {
		t.Errorf("running %q, want %q", got, running)
	}
	if w.config != config {
		t.Errorf("acknowledged %d, want %d", w.config, config)
	}
}
