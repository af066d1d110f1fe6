package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"time"
)

const networkPatience = 10 * time.Second

func serve(ctx context.Context, out io.Writer, arguments []string) error {
	flags := newFlags("serve")
	port := flags.Int("port", 8080, "port to listen on")
	if _, err := parse(flags, arguments, 0, 0); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(*port)))
	if err != nil {
		return fmt.Errorf("listen on port %d: %w", *port, err)
	}
	fmt.Fprintf(out, "serving on %s\n", listener.Addr())
	return serveOn(ctx, listener, handler())
}

func serveOn(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: networkPatience}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop the server: %w", err)
	}
	return nil
}

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", answerHostname)
	mux.HandleFunc("GET /file", answerFile)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

func answerHostname(w http.ResponseWriter, _ *http.Request) {
	name, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, name)
}

func answerFile(w http.ResponseWriter, request *http.Request) {
	content, err := os.ReadFile(request.URL.Query().Get("path"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(content) // an error means that the client has disconnected
}

func fetch(ctx context.Context, out io.Writer, arguments []string) error {
	flags := newFlags("get")
	timeout := flags.Duration("timeout", networkPatience, "how long to wait for the whole answer")
	rest, err := parse(flags, arguments, 1, 1)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, rest[0], nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("get %q: answered %s", rest[0], response.Status)
	}
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("read body of %q: %w", rest[0], err)
	}
	return nil
}

func lookup(ctx context.Context, out io.Writer, arguments []string) error {
	flags := newFlags("lookup")
	timeout := flags.Duration("timeout", networkPatience, "how long to wait for the answer")
	rest, err := parse(flags, arguments, 1, 1)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, rest[0])
	if err != nil {
		return fmt.Errorf("look up %q: %w", rest[0], err)
	}
	sort.Strings(addresses)
	for _, address := range addresses {
		fmt.Fprintln(out, address)
	}
	return nil
}
