package operator

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestUsedAPIPortIsAnError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = httpAPIServer{port: taken.Addr().(*net.TCPAddr).Port}.Start(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "open api.port: ") {
		t.Errorf("got %v", err)
	}
}

func TestAPIIsForLoopbackOnly(t *testing.T) {
	port := freePort(t, "127.0.0.1")
	background(t, httpAPIServer{http.NotFoundHandler(), port}.Start)
	if !isListening(t, "127.0.0.1", port, 5*time.Second) {
		t.Error("no answer")
	}
	for _, host := range otherAddresses(t) {
		if isListening(t, host, port, 0) {
			t.Errorf("%s is open, and plain HTTP is not for networks", host)
		}
	}
}

// otherAddresses returns this machine's addresses that other machines could dial.
func otherAddresses(t *testing.T) []string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, one := range all {
		if network, is := one.(*net.IPNet); is && !network.IP.IsLoopback() && !network.IP.IsLinkLocalUnicast() {
			found = append(found, network.IP.String())
		}
	}
	return found
}

// isListening reports whether the port accepts a connection within that time.
func isListening(t *testing.T, host string, port int, timeout time.Duration) bool {
	t.Helper()
	for until := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		cancel()
		if err == nil {
			_ = connection.Close()
			return true
		}
		if time.Now().After(until) {
			return false
		}
	}
}
