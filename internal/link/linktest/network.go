package linktest

import (
	"context"
	"net"
	"sync"
	"testing"
)

// A Network lies between agents and an operator and can be frozen: connections stay open and nothing passes, as if the
// operator were stopped.
type Network struct {
	Address string

	mu          sync.Mutex
	open        chan struct{} // closed while open
	connections map[net.Conn]bool
}

// NewNetwork relays to an address until the test ends.
func NewNetwork(t testing.TB, address string) *Network {
	t.Helper()
	listener := listenLocal(t)
	n := &Network{Address: listener.Addr().String(), open: make(chan struct{}), connections: map[net.Conn]bool{}}
	close(n.open)
	go n.accept(listener, address)
	t.Cleanup(func() {
		_ = listener.Close()
		n.Thaw()
		n.Cut()
	})
	return n
}

func (n *Network) accept(listener net.Listener, address string) {
	for {
		downstream, err := listener.Accept()
		if err != nil {
			return
		}
		upstream, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
		if err != nil {
			_ = downstream.Close()
			continue
		}
		n.mu.Lock()
		n.connections[downstream], n.connections[upstream] = true, true
		n.mu.Unlock()
		go n.relay(downstream, upstream)
		go n.relay(upstream, downstream)
	}
}

func (n *Network) relay(source, destination net.Conn) {
	defer func() { _, _ = source.Close(), destination.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		size, err := source.Read(buffer)
		<-n.opened()
		if size > 0 {
			if _, err := destination.Write(buffer[:size]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (n *Network) opened() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}

// Freeze blocks all traffic.
func (n *Network) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = make(chan struct{})
}

// Thaw lets everything pass, starting with what was held back.
func (n *Network) Thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.open:
	default:
		close(n.open)
	}
}

// Cut breaks every connection.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for connection := range n.connections {
		_ = connection.Close()
	}
	clear(n.connections)
}

func listenLocal(t testing.TB) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
