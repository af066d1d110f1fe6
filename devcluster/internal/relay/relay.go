// Package relay forwards TCP connections from one address to another. It does not interpret what they carry; frozen, it is a network
// that has silently stopped delivering.
package relay

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"
)

// Serve relays until the context ends; connections that are open then go on.
func Serve(ctx context.Context, listen, to string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", listen, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection: %w", err)
		}
		go lead(ctx, client, to)
	}
}

func lead(ctx context.Context, client net.Conn, to string) {
	defer client.Close()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	server, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		slog.Warn("the other side does not answer", "to", to, "error", err)
		return
	}
	defer server.Close()
	done := make(chan struct{}, 2)
	go pour(server, client, done)
	go pour(client, server, done)
	<-done
	<-done
}

// pour copies one direction and passes on its end, so that half-closed connections work.
func pour(to, from net.Conn, done chan<- struct{}) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	done <- struct{}{}
}
