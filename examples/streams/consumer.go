package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// retryInterval is how long to wait before a broken stream is requested again.
const retryInterval = time.Second

// A consumer implements worker.Jobs: each job is a stream that it reads.
type consumer struct {
	server string
	name   string
	log    *slog.Logger

	mu     sync.Mutex
	active map[string]*activeStream
}

// An activeStream is one open stream.
type activeStream struct {
	stopping chan struct{}      // closed when it is to end
	abort    context.CancelFunc // ends it without the server's help
	done     chan struct{}      // closed when it has ended
}

func newConsumer(server, name string, log *slog.Logger) *consumer {
	return &consumer{server: server, name: name, log: log, active: map[string]*activeStream{}}
}

// Start connects. If the server does not answer, the worker tries again later.
func (c *consumer) Start(_ context.Context, job string) error {
	ctx, abort := context.WithCancel(context.Background())
	body, err := c.openStream(ctx, job)
	if err != nil {
		abort()
		return err
	}
	stream := &activeStream{stopping: make(chan struct{}), abort: abort, done: make(chan struct{})}
	c.mu.Lock()
	c.active[job] = stream
	c.mu.Unlock()
	go func() {
		defer close(stream.done)
		defer abort()
		c.readStream(ctx, job, stream.stopping, body)
	}()
	return nil
}

// Stop asks the server to end the stream and waits until it has, so that the next consumer finds it free.
func (c *consumer) Stop(ctx context.Context, job string) error {
	c.mu.Lock()
	stream := c.active[job]
	delete(c.active, job)
	c.mu.Unlock()
	close(stream.stopping)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := c.request(ctx, http.MethodDelete, job)
	if err != nil {
		stream.abort() // no server is reachable that could send it to two consumers
	} else {
		_ = response.Body.Close()
	}
	select {
	case <-stream.done:
	case <-ctx.Done():
		stream.abort()
		<-stream.done
	}
	return nil
}

// readStream reads the stream, and requests it again when it breaks off.
func (c *consumer) readStream(ctx context.Context, job string, stopping <-chan struct{}, body io.ReadCloser) {
	for {
		if body != nil {
			bytes, err := io.Copy(io.Discard, body)
			_ = body.Close()
			c.log.Info("stream ended", "stream", job, "bytes", bytes, "error", err)
		}
		select {
		case <-stopping:
			return
		case <-time.After(retryInterval):
		}
		var err error
		if body, err = c.openStream(ctx, job); err != nil {
			c.log.Warn("stream broke off", "stream", job, "error", err)
		}
	}
}

func (c *consumer) openStream(ctx context.Context, job string) (io.ReadCloser, error) {
	response, err := c.request(ctx, http.MethodGet, job)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

func (c *consumer) request(ctx context.Context, method, job string) (*http.Response, error) {
	address := c.server + "/streams/" + url.PathEscape(job) + "?consumer=" + url.QueryEscape(c.name)
	request, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("request stream %q: %w", job, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("request stream %q: %w", job, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		_ = response.Body.Close()
		return nil, fmt.Errorf("request stream %q: %s", job, response.Status)
	}
	return response, nil
}
