// Package ports finds ports for programs under test.
package ports

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// The range ends below the ports that Linux uses for outgoing connections: one of those may be in use by the time a program opens it.
const firstPort, lastPort = 12_000, 20_000

var allocated atomic.Int64

// Free returns a port without a listener. It never returns the same port twice in a process, and another process begins elsewhere.
func Free() string {
	for {
		port := strconv.Itoa(firstPort + (os.Getpid()*97+int(allocated.Add(1)))%(lastPort-firstPort))
		if listener, err := net.Listen("tcp", ":"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
}
