// Package worker is for writing workers in Go: programs that run the standing jobs which a WorkerPool gives to their pod.
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
//		defer stop()
//		err := worker.Run(ctx, streams) // streams has the methods Start and Stop
//		...
//	}
//
// It promises that only jobs run which the pool's file lists for this worker, that everything which runs is on one
// list, that a list is acknowledged to the operator only after each job that it took away has stopped, and that nothing
// starts on a file that is older than what the operator asks for: the operator gives a job to somebody else only after
// that acknowledgement, so no job has two owners. A file that is missing or cannot be read changes nothing and crashes
// nothing. See docs/worker.md.
//
// One thing is out of its reach: a process that is cut off (a node that vanished, a pod deleted by force) may go on
// while its jobs are given to others.
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

	"github.com/swarm-io/swarm-operator/worker/internal/duty"
	"github.com/swarm-io/swarm-operator/worker/internal/mount"
	"github.com/swarm-io/swarm-operator/worker/internal/standing"
)

const (
	// lookEvery is how late a change is noticed when the kernel does not tell of it.
	lookEvery = 5 * time.Second
	// patience is how long somebody who asks may take to do so.
	patience = 5 * time.Second
)

// Jobs starts and stops jobs. Both methods are called for many jobs at once, but never twice at once for the same.
type Jobs interface {
	// Start returns when the job is under way; it does not wait for its end. The context ends when the job is to stop, so
	// that it can be the context of the job itself. With an error nothing of the job runs, and it is tried again later.
	Start(ctx context.Context, job string) error
	// Stop returns when nothing of the job runs any more. With an error it is tried again later, and until it has
	// succeeded the list without the job is not acknowledged.
	Stop(ctx context.Context, job string) error
}

// Run keeps the jobs of this pod running until the context ends, with what the pod's environment says
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
	journal, closer, err := openJournal(config)
	if err != nil {
		return err
	}
	defer closer.Close()
	board := standing.NewBoard(config.Worker, config.PodUID)
	listener, err := config.listen(ctx)
	if err != nil {
		return err
	}
	config.log().Info("serving", "address", listener.Addr().String(), "worker", config.Worker)
	server := &http.Server{Handler: board, ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: patience}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	config.warnWithoutFloor()
	err = config.follow(ctx, duty.Config{Worker: config.Worker, Jobs: jobs, Journal: journal, Board: board, Log: config.log()})
	closed := server.Close()
	if problem := <-served; !errors.Is(problem, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve %s: %w", standing.PathVersion, problem))
	}
	return errors.Join(err, closed)
}

// follow runs the duty while the files are followed.
func (c Config) follow(ctx context.Context, work duty.Config) error {
	following, stop := context.WithCancel(ctx)
	sights, followed := make(chan []mount.Sight), make(chan struct{})
	// The annotation is read after the list, so that it is never the older of the two.
	follower := mount.Follower{Files: []string{c.File, c.VersionFile}, Every: lookEvery, Log: c.log()}
	go func() {
		defer close(followed)
		follower.Follow(following, sights)
	}()
	defer func() {
		stop()
		<-followed
	}()
	return duty.Run(ctx, work, sights)
}

func (c Config) listen(ctx context.Context) (net.Listener, error) {
	if c.Listener != nil {
		return c.Listener, nil
	}
	var network net.ListenConfig
	listener, err := network.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(c.Port)))
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", standing.PathVersion, err)
	}
	return listener, nil
}

// warnWithoutFloor: the volume is there before the container is, or never.
func (c Config) warnWithoutFloor() {
	if _, err := os.Stat(c.VersionFile); err != nil {
		c.log().Warn("the pod's annotation swarm.io/config-version is not mounted: after a restart on an old file, jobs may start that were taken away",
			"file", c.VersionFile, "error", err)
	}
}

func (c Config) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.NewJSONHandler(io.Discard, nil))
	}
	return c.Log
}
