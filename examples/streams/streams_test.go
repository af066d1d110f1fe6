package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/worker"
)

// A testPool is two real workers at a real server, and the operator's part done by hand.
type testPool struct {
	*streamServer
	file    string
	version int
	lists   [2][]string
	address [2]string
}

func newTestPool(t *testing.T) *testPool {
	t.Helper()
	p := &testPool{streamServer: newStreamServer(time.Millisecond), file: filepath.Join(t.TempDir(), "config.yml")}
	server := httptest.NewServer(p.handler())
	t.Cleanup(server.Close)
	for i := range p.lists {
		name := fmt.Sprintf("swarm-worker-%d", i)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p.address[i] = listener.Addr().String()
		config := worker.Config{Worker: name, PodUID: name, File: p.file, VersionFile: p.file + ".none", Listener: listener}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- worker.RunWith(ctx, config, newConsumer(server.URL, name, slog.New(slog.DiscardHandler)))
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	return p
}

// publish writes the lists unchanged.
func (p *testPool) publish(t *testing.T) {
	t.Helper()
	p.version++
	text := fmt.Appendf(nil, "version: %d\nworkloads:\n", p.version)
	for i, jobs := range p.lists {
		text = fmt.Appendf(text, "  swarm-worker-%d: {jobs: [%s], version: %d}\n", i, strings.Join(jobs, ", "), p.version)
	}
	if err := os.WriteFile(p.file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.file+".new", p.file); err != nil {
		t.Fatal(err)
	}
}

// awaitAcknowledged waits for a worker.
func (p *testPool) awaitAcknowledged(t *testing.T, i int) {
	t.Helper()
	eventually(t, fmt.Sprintf("worker %d acknowledges %d", i, p.version), func() bool {
		response, err := http.Get("http://" + p.address[i] + "/internal/version")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var answer struct{ Config int }
		return json.NewDecoder(response.Body).Decode(&answer) == nil && answer.Config == p.version
	})
}

func eventually(t *testing.T, description string, condition func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for ticker := time.NewTicker(time.Millisecond); !condition(); {
		select {
		case <-ticker.C:
		case <-limit:
			t.Fatalf("not in time: %s", description)
		}
	}
}

// awaitSettled waits until each stream has the consumer whose list it is on.
func (p *testPool) awaitSettled(t *testing.T) {
	t.Helper()
	eventually(t, "every stream has its consumer", func() bool {
		consumers := p.snapshot().Consumers
		for i, jobs := range p.lists {
			for _, job := range jobs {
				if !slices.Equal(consumers[job], []string{fmt.Sprintf("swarm-worker-%d", i)}) {
					return false
				}
			}
		}
		return true
	})
}

// Streams move to and fro, each by release, acknowledgement and grant: the referee never sees two consumers.
func TestNoStreamHasTwoConsumers(t *testing.T) {
	p := newTestPool(t)
	for i := range 8 {
		p.lists[i%2] = append(p.lists[i%2], fmt.Sprintf("stream:cctv%d", i))
	}
	p.publish(t)
	p.awaitSettled(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 25 {
		from := random.IntN(2)
		if len(p.lists[from]) == 0 {
			from = 1 - from
		}
		moved := 1 + random.IntN(len(p.lists[from]))
		jobs := slices.Clone(p.lists[from][:moved])
		p.lists[from] = p.lists[from][moved:]
		p.publish(t)
		p.awaitAcknowledged(t, from)
		p.lists[1-from] = append(p.lists[1-from], jobs...)
		p.publish(t)
		if random.IntN(2) == 0 {
			p.awaitSettled(t)
		}
	}
	p.awaitSettled(t)
	if seen := p.snapshot(); seen.Conflicts != 0 || seen.Served < 8+25/2 {
		t.Errorf("%d conflicts in %d connections: %q", seen.Conflicts, seen.Served, seen.Last)
	}
}

// The referee is not blind: a grant before the release is a conflict.
func TestTheServerReportsTwoConsumers(t *testing.T) {
	p := newTestPool(t)
	p.lists[0] = []string{"stream:cctv0"}
	p.publish(t)
	p.awaitSettled(t)
	p.lists[1] = p.lists[0]
	p.publish(t)
	eventually(t, "a conflict", func() bool { return p.snapshot().Conflicts == 1 })
	want := "stream:cctv0: swarm-worker-1, while swarm-worker-0 consumes it"
	if got := p.snapshot().Last; !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUsage(t *testing.T) {
	for _, arguments := range [][]string{nil, {"consume"}, {"serve", "x"}, {"nonsense"}} {
		if err := run(t.Context(), arguments); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: %v", arguments, err)
		}
	}
}
