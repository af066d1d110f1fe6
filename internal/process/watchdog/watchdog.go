// Package watchdog ends work at a deadline, even if other parts of the process are stuck.
//
// It promises that every target is killed within a Tick after the clock has reached the deadline, also after the machine was suspended, and
// that the process ends if a target is still there when the grace is over. To keep that promise its goroutine only reads the clock and an
// atomic number, and calls functions that must not block: it writes no log, and takes no lock that is held during I/O.
package watchdog

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
)

const (
	// Tick is how often the clock is read while there are targets. A timer for the deadline itself would be late after a suspension, because
	// timers stand still with the machine.
	Tick = 100 * time.Millisecond
	// DeathTimeout is how long a target may take to end after it was killed, however late the deadline was noticed.
	DeathTimeout = time.Second
)

// BootTime is the clock of watchdogs outside of tests.
func BootTime() time.Duration { return hostclock.BootTime() }

// Config configures a Watchdog. No function may block.
type Config struct {
	Clock   func() time.Duration // counts suspension, as BootTime does
	Grace   time.Duration        // between the deadline and the end of the process, if targets are left; at least DeathTimeout
	Expired func()               // called after the targets were killed, once for each deadline that passes
	Exit    func()               // ends the process
}

// A Watchdog watches targets: work that must not outlive a deadline. Until a deadline is set, nothing may run. A nil Watchdog watches
// nothing.
type Watchdog struct {
	config   Config
	deadline atomic.Int64 // a reading of the clock
	added    chan struct{}
	done     chan struct{}
	stop     func()

	// Only the watchdog's goroutine uses these.
	expired, exiting bool
	noticedAt        time.Duration // when the passed deadline was noticed

	mu      sync.Mutex
	lastID  uint64
	targets map[uint64]func()
}

// Start begins to watch, until Stop.
func Start(config Config) *Watchdog {
	config.Grace = max(config.Grace, DeathTimeout)
	w := &Watchdog{config: config, added: make(chan struct{}, 1), done: make(chan struct{}), targets: map[uint64]func(){}}
	w.stop = sync.OnceFunc(func() { close(w.done) })
	go w.run()
	return w
}

// Stop ends the watch. Nothing may run any more.
func (w *Watchdog) Stop() { w.stop() }

// SetDeadline replaces the deadline, a reading of the clock.
func (w *Watchdog) SetDeadline(deadline time.Duration) { w.deadline.Store(int64(deadline)) }

// Passed reports whether the deadline has passed, so that nothing may start.
func (w *Watchdog) Passed() bool {
	return w != nil && w.config.Clock() >= time.Duration(w.deadline.Load())
}

// Watch adds a target. The watchdog calls kill once in every Tick after the deadline, until release is called.
func (w *Watchdog) Watch(kill func()) (release func()) {
	if w == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastID++
	id := w.lastID
	w.targets[id] = kill
	select {
	case w.added <- struct{}{}:
	default:
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.targets, id)
	}
}

func (w *Watchdog) currentTargets() []func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.targets))
}

func (w *Watchdog) run() {
	timer := time.NewTimer(Tick)
	defer timer.Stop()
	for {
		tick := timer.C
		if len(w.currentTargets()) == 0 {
			tick = nil // an idle process does not wake up ten times a second
		}
		select {
		case <-w.done:
			return
		case <-w.added: // also check here, or a target every few milliseconds would postpone the next tick forever
		case <-tick:
		}
		w.check(w.config.Clock())
		timer.Reset(Tick)
	}
}

// check kills all targets after the deadline. It does so at every tick, because a target may be starting at this moment.
func (w *Watchdog) check(now time.Duration) {
	deadline := time.Duration(w.deadline.Load())
	if now < deadline {
		w.expired, w.exiting = false, false
		return
	}
	targets := w.currentTargets()
	for _, kill := range targets {
		kill()
	}
	if !w.expired {
		w.expired, w.noticedAt = true, now
		w.config.Expired()
	}
	if len(targets) > 0 && !w.exiting && now >= max(deadline+w.config.Grace, w.noticedAt+DeathTimeout) {
		w.exiting = true
		w.config.Exit()
	}
}
