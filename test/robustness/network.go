package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// A condition is what a link is like.
type condition struct {
	cut   bool          // nothing passes; what was sent meanwhile arrives when the link is whole again, as TCP has it
	deaf  bool          // what the operator sends is lost; the connection ends when the link is whole again
	delay time.Duration // of everything that is sent
	whole chan struct{} // closed when the condition is over
}

// A Link is the network between one agent and all operators. The agent has an address of its own for each operator.
type Link struct {
	Addresses []string

	mu          sync.Mutex
	now         condition
	connections map[net.Conn]bool
}

// newLink relays to the operators until the context ends.
func newLink(ctx context.Context, operators []string) (*Link, error) {
	l := &Link{connections: map[net.Conn]bool{}}
	for _, operator := range operators {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("open a link: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = listener.Close() })
		l.Addresses = append(l.Addresses, listener.Addr().String())
		go l.accept(ctx, listener, operator)
	}
	context.AfterFunc(ctx, l.Sever)
	return l, nil
}

func (l *Link) accept(ctx context.Context, listener net.Listener, operator string) {
	for {
		agent, err := listener.Accept()
		if err != nil {
			return
		}
		go l.connect(ctx, agent, operator)
	}
}

// connect carries one connection.
func (l *Link) connect(ctx context.Context, agent net.Conn, operator string) {
	if now := l.condition(); now.cut {
		wait(ctx, now.whole)
	}
	onward, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", operator)
	if err != nil {
		_ = agent.Close()
		return
	}
	l.mu.Lock()
	l.connections[agent], l.connections[onward] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.carry(ctx, agent, onward, false) })
	both.Go(func() { l.carry(ctx, onward, agent, true) })
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.connections, agent)
	delete(l.connections, onward)
}

// carry moves bytes in one direction. What one side had sent before it closed the connection still arrives.
func (l *Link) carry(ctx context.Context, from, to net.Conn, fromOperator bool) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		size, err := from.Read(buffer)
		now := l.condition()
		if now.cut {
			wait(ctx, now.whole)
		}
		if now.deaf && fromOperator {
			wait(ctx, now.whole)
			_ = from.Close()
			return
		}
		if now.delay > 0 {
			pause(ctx, now.delay)
		}
		if _, failed := to.Write(buffer[:size]); err != nil || failed != nil {
			return
		}
	}
}

func (l *Link) condition() condition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Impair changes what the link is like, unless it is impaired already.
func (l *Link) Impair(wanted condition) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.whole != nil {
		return false
	}
	wanted.whole = make(chan struct{})
	l.now = wanted
	return true
}

// Restore makes the link whole.
func (l *Link) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.whole != nil {
		close(l.now.whole)
		l.now = condition{}
	}
}

// Sever ends all connections at once.
func (l *Link) Sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for connection := range l.connections {
		_ = connection.Close()
	}
}

// wait returns when the channel is closed, or the context ends.
func wait(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// pause returns after a while, or when the context ends.
func pause(ctx context.Context, long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
