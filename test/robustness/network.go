package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// A linkCondition is the condition of a link.
type linkCondition struct {
	cut               bool          // nothing passes; what was sent meanwhile arrives when the link is restored, as with TCP
	dropsFromOperator bool          // what the operator sends is lost; the connection ends when the link is restored
	delay             time.Duration // of everything that is sent
	restored          chan struct{} // closed when the condition is over
}

// A Link is the network between one agent and all operators. The agent has a separate address for each operator.
type Link struct {
	Addresses []string

	mu          sync.Mutex
	condition   linkCondition
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
	if now := l.currentCondition(); now.cut {
		wait(ctx, now.restored)
	}
	upstream, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", operator)
	if err != nil {
		_ = agent.Close()
		return
	}
	l.mu.Lock()
	l.connections[agent], l.connections[upstream] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.copyOneWay(ctx, agent, upstream, false) })
	both.Go(func() { l.copyOneWay(ctx, upstream, agent, true) })
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.connections, agent)
	delete(l.connections, upstream)
}

// copyOneWay moves bytes in one direction. What one side had sent before it closed the connection still arrives.
func (l *Link) copyOneWay(ctx context.Context, from, to net.Conn, fromOperator bool) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		size, err := from.Read(buffer)
		condition := l.currentCondition()
		if condition.cut {
			wait(ctx, condition.restored)
		}
		if condition.dropsFromOperator && fromOperator {
			wait(ctx, condition.restored)
			_ = from.Close()
			return
		}
		if condition.delay > 0 {
			pause(ctx, condition.delay)
		}
		if _, failed := to.Write(buffer[:size]); err != nil || failed != nil {
			return
		}
	}
}

func (l *Link) currentCondition() linkCondition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.condition
}

// Impair changes the condition of the link, unless it is already impaired.
func (l *Link) Impair(condition linkCondition) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.condition.restored != nil {
		return false
	}
	condition.restored = make(chan struct{})
	l.condition = condition
	return true
}

// Restore restores the link.
func (l *Link) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.condition.restored != nil {
		close(l.condition.restored)
		l.condition = linkCondition{}
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
