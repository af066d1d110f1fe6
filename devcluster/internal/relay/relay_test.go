package relay

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// echo answers every connection with its whole input.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				said, _ := io.ReadAll(connection)
				_, _ = connection.Write(said)
			}()
		}
	}()
	return listener.Addr().String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			return connection.(*net.TCPConn)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestHalfClosedConnectionStillAnswers(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	address := freeAddress(t)
	target := echo(t)
	go func() { ended <- Serve(ctx, address, target) }()
	connection := dial(t, address)
	defer connection.Close()
	if _, err := connection.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := connection.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(connection)
	if err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve ended with %v", err)
	}
}

func TestConnectionToNobodyIsClosed(t *testing.T) {
	address := freeAddress(t)
	absent := freeAddress(t)
	go func() { _ = Serve(t.Context(), address, absent) }()
	connection := dial(t, address)
	defer connection.Close()
	if got, err := io.ReadAll(connection); err != nil || len(got) > 0 {
		t.Errorf("got %q, %v, want a closed connection", got, err)
	}
}
