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
	gate        chan struct{} // closed while open
	connections map[net.Conn]bool
}

// NewNetwork relays to an address until the test ends.
func NewNetwork(t testing.TB, to string) *Network {
	t.Helper()
	listener := listen(t)
	n := &Network{Address: listener.Addr().String(), gate: make(chan struct{}), connections: map[net.Conn]bool{}}
	close(n.gate)
	go n.accept(listener, to)
	t.Cleanup(func() {
		_ = listener.Close()
		n.Thaw()
		n.Cut()
	})
	return n
}

func (n *Network) accept(listener net.Listener, to string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		onward, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", to)
		if err != nil {
			_ = from.Close()
			continue
		}
		n.mu.Lock()
		n.connections[from], n.connections[onward] = true, true
		n.mu.Unlock()
		go n.relay(from, onward)
		go n.relay(onward, from)
	}
}

func (n *Network) relay(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		size, err := from.Read(buffer)
		<-n.passage()
		if size > 0 {
			if _, err := to.Write(buffer[:size]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (n *Network) passage() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.gate
}

// Freeze blocks all traffic.
func (n *Network) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gate = make(chan struct{})
}

// Thaw lets everything pass, starting with what was held back.
func (n *Network) Thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.gate:
	default:
		close(n.gate)
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

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
