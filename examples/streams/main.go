// Command streams is an example of a worker pool: a server of endless streams that notices when one has two consumers, and a
// worker that consumes the streams that the pool gives to its pod. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/swarm-io/swarm-operator/worker"
)

const (
	defaultAddress = ":8080"
	requestTimeout = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "streams:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "serve" {
		return serve(ctx)
	}
	if len(arguments) == 2 && arguments[0] == "consume" {
		log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
		return worker.Run(ctx, newConsumer(arguments[1], os.Getenv("POD_NAME"), log))
	}
	return errors.New("usage: streams serve | streams consume URL")
}

func serve(ctx context.Context) error {
	server := &http.Server{Addr: defaultAddress, Handler: newStreamServer(100 * time.Millisecond).handler(), ReadHeaderTimeout: requestTimeout}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve streams: %w", err)
	}
	return nil
}
