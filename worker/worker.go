// Package worker is for writing workers in Go: programs that run the standing jobs that a WorkerPool assigns to their pod.
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
//		defer stop()
//		err := worker.Run(ctx, streams) // streams has the methods Start and Stop
//		...
//	}
//
// It promises that only jobs run that the pool's file lists for this worker, that everything that runs is on one list, that a list is
// acknowledged only after each job that it removed has stopped, and that nothing starts from a file that is older than the version that the
// operator requires. The operator gives a job to another worker only after that acknowledgement, so no job has two owners. A file that is
// missing or cannot be read changes nothing and crashes nothing. See docs/reference/worker.md.
//
// One thing is out of its reach: a process that is cut off (a node that vanished, a pod deleted by force) may continue while its jobs go to
// other workers. Config.Lease covers that case.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
	"github.com/swarm-io/swarm-operator/internal/process/nonblocking"
	"github.com/swarm-io/swarm-operator/internal/process/watchdog"
	"github.com/swarm-io/swarm-operator/worker/internal/filewatch"
	"github.com/swarm-io/swarm-operator/worker/internal/runner"
	"github.com/swarm-io/swarm-operator/worker/internal/status"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

const (
	// pollInterval is how late a change is noticed when the kernel does not report it.
	pollInterval = 5 * time.Second
	// requestTimeout is the timeout of a request.
	requestTimeout = 5 * time.Second
	// flushTimeout is how long a stopping worker waits for output, logs and journal to be written.
	flushTimeout = time.Second
	// abortLogTimeout is how long a process that must end at once waits for its log.
	abortLogTimeout = 100 * time.Millisecond
	// exitFenced is the exit code of a process that could not stop its jobs in time.
	exitFenced = 70
)

// Jobs starts and stops jobs. Both methods are called for many jobs at once, but never twice at once for the same.
type Jobs interface {
	// Start returns when the job is started; it does not wait for its end. The context ends when the job is to stop, so that it can be the
	// context of the job itself. After an error nothing of the job may run, and Start is retried later.
	Start(ctx context.Context, job string) error
	// Stop returns when nothing of the job runs any more. After an error Stop is retried later, and the list without the job is not
	// acknowledged until it has succeeded. The context ends only when the worker has lost its Lease and there is no more time for an
	// orderly stop; if Stop does not return soon after that, Run returns and the process must end. If it still runs a second after the
	// Lease is over, it is killed.
	Stop(ctx context.Context, job string) error
}

// Run keeps the jobs of this pod running until the context ends, configured by the pod's environment
// (ConfigFromEnvironment). It then stops them and returns.
func Run(ctx context.Context, jobs Jobs) error {
	config, err := ConfigFromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	return RunWith(ctx, config, jobs)
}

// RunWith is Run with a configuration of your own.
func RunWith(ctx context.Context, config Config, jobs Jobs) error {
	if err := config.validate(); err != nil {
		return err
	}
	var logQueue *nonblocking.Queue
	config.Log, logQueue = nonblocking.NewLogger(config.log())
	defer logQueue.Close(flushTimeout)
	journal, err := openJournal(config)
	if err != nil {
		return err
	}
	defer journal.close()
	statusHandler := status.NewHandler(config.Worker, config.PodUID)
	listener, err := config.listen(ctx)
	if err != nil {
		return err
	}
	config.log().Info("serving", "address", listener.Addr().String(), "worker", config.Worker)
	server := &http.Server{Handler: statusHandler, ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout,
		WriteTimeout: requestTimeout}
	serveDone := make(chan error, 1)
	go func() { serveDone <- server.Serve(listener) }()

	config.warnWithoutMinVersion()
	runnerConfig := runner.Config{Worker: config.Worker, Jobs: jobs, Journal: journal, Status: statusHandler, Log: config.log()}
	if command, isCommand := jobs.(*commandJobs); isCommand {
		runnerConfig.Kill, command.log = command.kill, config.log()
		defer command.flush(flushTimeout)
	}
	err = config.runWithLease(ctx, runnerConfig, logQueue)
	closeErr := server.Close()
	if serveErr := <-serveDone; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve %s: %w", status.PathVersion, serveErr))
	}
	return errors.Join(err, closeErr)
}

// runWithLease runs the runner, with a Lease if one is configured. The Lease is kept until nothing runs any more and then released, unless
// a job could not be stopped: then the watchdog stays, and ends a process that does not end by itself.
func (c Config) runWithLease(ctx context.Context, runnerConfig runner.Config, logQueue *nonblocking.Queue) error {
	if c.Lease == 0 {
		return c.runWithFiles(ctx, runnerConfig)
	}
	store, err := c.leaseStore()
	if err != nil {
		return err
	}
	keeper := lease.Keeper{Store: store, Name: lease.Name(c.Worker), Holder: c.PodUID, Duration: c.Lease, Log: c.log()}
	runnerConfig.Watchdog = c.startWatchdog(&keeper, logQueue)
	keeperCtx, stopKeeper := context.WithCancel(context.WithoutCancel(ctx))
	states, keeperDone := make(chan lease.State), make(chan struct{})
	go func() {
		defer close(keeperDone)
		keeper.Run(keeperCtx, func(state lease.State) {
			select {
			case states <- state:
			case <-keeperCtx.Done():
			}
		})
	}()
	runnerConfig.LeaseStates = states
	err = c.runWithFiles(ctx, runnerConfig)
	stopKeeper()
	<-keeperDone
	if err != nil {
		return err
	}
	runnerConfig.Watchdog.Stop()
	releaseCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := keeper.Release(releaseCtx); err != nil {
		c.log().Warn("cannot release the Lease: others wait until it expires", "error", err)
	}
	return nil
}

// startWatchdog starts a watchdog with the deadline of the Lease: when everything must be stopped by force. The process ends when others
// may have the Lease.
func (c Config) startWatchdog(keeper *lease.Keeper, logQueue *nonblocking.Queue) *watchdog.Watchdog {
	expired := make(chan struct{}, 1)
	dog := watchdog.Start(watchdog.Config{
		Clock: hostclock.BootTime, Grace: lease.ForceTime(c.Lease) + watchdog.DeathTimeout,
		Expired: func() {
			select {
			case expired <- struct{}{}:
			default:
			}
		},
		Exit: func() { c.abort("a job could not be stopped before the Lease was over", logQueue) },
	})
	keeper.Expired = expired
	keeper.Deadline = func(remaining time.Duration) { dog.SetDeadline(hostclock.BootTime() + remaining) }
	return dog
}

// abort ends the process, which is the only way to end a job that does not stop. It does not wait long for a blocked log.
func (c Config) abort(reason string, logQueue *nonblocking.Queue) {
	nonblocking.LogBeforeExit(logQueue, abortLogTimeout, func() {
		c.log().Error("ending the process: jobs may run elsewhere from now on", "reason", reason)
	})
	if c.Abort != nil {
		c.Abort(reason)
		return
	}
	os.Exit(exitFenced)
}

// leaseStore returns the configured store, by default the Lease on the API server of this cluster.
func (c Config) leaseStore() (lease.Store, error) {
	if c.LeaseStore != nil {
		return c.LeaseStore, nil
	}
	api, err := lease.InCluster(c.Worker, c.PodUID)
	if err != nil {
		return nil, fmt.Errorf("keep a Lease: %w", err)
	}
	return api, nil
}

// runWithFiles runs the runner while it watches the files.
func (c Config) runWithFiles(ctx context.Context, runnerConfig runner.Config) error {
	watchCtx, stopWatching := context.WithCancel(ctx)
	snapshots, watchDone := make(chan []filewatch.Snapshot), make(chan struct{})
	// Read the annotation after the list, so that it is never the older of the two.
	watcher := filewatch.Watcher{Files: []string{c.File, c.VersionFile}, Interval: pollInterval, Log: c.log()}
	go func() {
		defer close(watchDone)
		watcher.Watch(watchCtx, snapshots)
	}()
	defer func() {
		stopWatching()
		<-watchDone
	}()
	return runner.Run(ctx, runnerConfig, snapshots)
}

func (c Config) listen(ctx context.Context) (net.Listener, error) {
	if c.Listener != nil {
		return c.Listener, nil
	}
	var network net.ListenConfig
	listener, err := network.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(c.Port)))
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", status.PathVersion, err)
	}
	return listener, nil
}

// warnWithoutMinVersion: the volume exists before the container does, or never.
func (c Config) warnWithoutMinVersion() {
	if _, err := os.Stat(c.VersionFile); err != nil {
		c.log().
			Warn("the pod's annotation swarm.io/config-version is not mounted: after a restart on an old file, jobs may start that were taken away",
				"file", c.VersionFile, "error", err)
	}
}

func (c Config) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.NewJSONHandler(io.Discard, nil))
	}
	return c.Log
}
