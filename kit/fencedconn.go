package kit

import (
	"context"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// fenceConnections returns the config with connections that end with leadership. The fenced client checks before it begins a write, but a
// process can be frozen after that check and would send the request when it wakes. So the last check is here, where bytes leave the
// process. It covers events as well. The Lease is renewed over other connections.
func (l *Leadership) fenceConnections(config *rest.Config) *rest.Config {
	fenced := rest.CopyConfig(config)
	dial := fenced.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	fenced.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &fencedConn{Conn: inner, leadership: l}, nil
	}
	return fenced
}

type fencedConn struct {
	net.Conn
	leadership *Leadership
}

// Write sends nothing once leadership is over. Before leadership begins, only reads are sent.
func (w *fencedConn) Write(bytes []byte) (int, error) {
	if w.leadership.HasEnded() {
		_ = w.Close() // callers need not wait for a response
		return 0, ErrNotLeading
	}
	return w.Conn.Write(bytes)
}

// HasEnded reports whether this process led and no longer does.
func (l *Leadership) HasEnded() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.hasEnded()
}

func (l *Leadership) hasEnded() bool {
	return l.leaderCtx.Err() != nil || !l.renewed.IsZero() && !l.fresh()
}
