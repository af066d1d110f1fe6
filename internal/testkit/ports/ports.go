// Package ports finds ports for programs under test.
package ports

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// The range ends below where Linux takes ports for outgoing connections: a port from there may be in use by the time a program opens it.
const first, last = 12_000, 20_000

var given atomic.Int64

// Free returns a port without a listener. It never returns the same port twice in a process, and another process begins elsewhere.
func Free() string {
	for {
		port := strconv.Itoa(first + (os.Getpid()*97+int(given.Add(1)))%(last-first))
		if listener, err := net.Listen("tcp", ":"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
}
