// Package ports finds ports for programs under test.
package ports

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// The range ends below where Linux takes ports for outgoing connections: one from there may be somebody's by the time a program opens it.
const first, last = 12_000, 20_000

var given atomic.Int64

// Free is a port that nobody listens on. The same process is never given one twice, and another process begins elsewhere.
func Free() string {
	for {
		port := strconv.Itoa(first + (os.Getpid()*97+int(given.Add(1)))%(last-first))
		if listener, err := net.Listen("tcp", ":"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
}
