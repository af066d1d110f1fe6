package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/swarm-io/swarm-operator/worker"
)

// stuckPrefix is the prefix of the names of jobs that do not stop when they are asked to.
const stuckPrefix = "stuck"

// runPoolWorker runs a pool worker whose jobs do nothing.
func runPoolWorker(ctx context.Context, _ io.Writer, arguments []string) error {
	if _, err := parse(newFlags("stand"), arguments, 0, 0); err != nil {
		return err
	}
	config, err := worker.ConfigFromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	return worker.RunWith(ctx, config, stuckHandler{})
}

type stuckHandler struct{}

func (stuckHandler) Start(context.Context, string) error { return nil }

// Stop returns, for some jobs, only when the process is killed, which is never.
func (stuckHandler) Stop(_ context.Context, job string) error {
	if strings.HasPrefix(job, stuckPrefix) {
		select {}
	}
	return nil
}

// serveAnswer always gives the same answer, which may be wrong.
func serveAnswer(ctx context.Context, _ io.Writer, arguments []string) error {
	flags := newFlags("answer")
	port := flags.Int("port", 9090, "port to listen on")
	rest, err := parse(flags, arguments, 1, 1)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(*port)))
	if err != nil {
		return err
	}
	return serveOn(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, rest[0]) }))
}
