package nonblocking

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A pipe blocks writes while it is not read, as a full pipe does.
type pipe struct {
	mu      sync.Mutex
	blocked chan struct{}
	text    strings.Builder
}

func (p *pipe) Write(text []byte) (int, error) {
	p.mu.Lock()
	blocked := p.blocked
	p.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(text)
}

func (p *pipe) block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = make(chan struct{})
}

func (p *pipe) read() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocked != nil {
		close(p.blocked)
		p.blocked = nil
	}
	return p.text.String()
}

func TestWritesArriveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pipe{}
		w := NewWriter(to, 0, nil)
		text := []byte("one\n")
		_, _ = w.Write(text)
		copy(text, "two\n") // the writer must not keep what belongs to its caller
		_, _ = w.Write(text)
		w.Close(time.Second)
		if got := to.read(); got != "one\ntwo\n" {
			t.Errorf("wrote %q", got)
		}
		_, _ = w.Write(text)
		if w.Dropped() != 1 {
			t.Errorf("dropped %d after the end", w.Dropped())
		}
	})
}

func TestABlockedDestinationBlocksNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, reported := &pipe{}, 0
		w := NewWriter(to, 0, func(dropped int) { reported += dropped })
		to.block()
		began, line := time.Now(), []byte(strings.Repeat("x", maxQueuedBytes/4))
		for range 10 {
			if n, err := w.Write(line); n != len(line) || err != nil {
				t.Fatalf("wrote %d: %v", n, err)
			}
		}
		if time.Since(began) != 0 || w.Dropped() != 6 {
			t.Errorf("took %s, dropped %d; want 6 of 10", time.Since(began), w.Dropped())
		}
		w.Flush(time.Second)
		if time.Since(began) != time.Second {
			t.Errorf("a flush took %s", time.Since(began))
		}
		to.read()
		w.Flush(time.Second)
		if got := len(to.read()); got != maxQueuedBytes || reported != 6 {
			t.Errorf("%d bytes arrived, %d were reported as dropped", got, reported)
		}
		_, _ = w.Write([]byte("again"))
		w.Close(time.Second)
		if !strings.HasSuffix(to.read(), "again") || w.Dropped() != 6 {
			t.Error("nothing is written after the destination is read again")
		}
	})
}

// A program that prints faster than its output is read is slowed down, but only until the first timeout.
func TestAWriterWaitsForRoomOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pipe{}
		w := NewWriter(to, 250*time.Millisecond, nil)
		to.block()
		large := []byte(strings.Repeat("x", maxQueuedBytes))
		_, _ = w.Write(large)
		go func() {
			time.Sleep(100 * time.Millisecond)
			to.read()
		}()
		began := time.Now()
		_, _ = w.Write(large)
		if time.Since(began) != 100*time.Millisecond || w.Dropped() != 0 {
			t.Errorf("waited %s for room, dropped %d", time.Since(began), w.Dropped())
		}
		w.Flush(time.Second)
		to.block()
		_, _ = w.Write(large)
		began = time.Now()
		for range 3 {
			_, _ = w.Write(large)
		}
		if time.Since(began) != 250*time.Millisecond || w.Dropped() != 3 {
			t.Errorf("waited %s in vain, dropped %d", time.Since(began), w.Dropped())
		}
		to.read()
		w.Close(time.Second)
	})
}

func TestALoggerThatDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pipe{}
		log, queue := NewLogger(slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelWarn})))
		to.block()
		named := log.With("agent", "a").WithGroup("g")
		log.Info("not enabled")
		for range 3000 {
			named.Warn("fenced", "running", 1)
		}
		if queue.Dropped() < 500 || queue.Dropped() > 1500 {
			t.Errorf("dropped %d of 3000", queue.Dropped())
		}
		to.read()
		queue.Close(time.Second)
		got := to.read()
		for _, part := range []string{"msg=fenced agent=a g.running=1", "dropped log records because they were not read", "dropped="} {
			if !strings.Contains(got, part) {
				t.Errorf("%q is missing", part)
			}
		}
		if strings.Contains(got, "not enabled") {
			t.Error("a record below the level was logged")
		}
	})
}

func TestLogBeforeExitDoesNotDelayTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pipe{}
		log, queue := NewLogger(slog.New(slog.NewTextHandler(to, nil)))
		began := time.Now()
		LogBeforeExit(queue, time.Second, func() { log.Error("fenced") })
		if time.Since(began) != 0 || !strings.Contains(to.read(), "fenced") {
			t.Errorf("took %s, wrote %q", time.Since(began), to.read())
		}
		to.block()
		LogBeforeExit(queue, time.Second, func() { log.Error("fenced") })
		LogBeforeExit(queue, time.Second, func() { time.Sleep(time.Hour) })
		if time.Since(began) != 2*time.Second {
			t.Errorf("took %s", time.Since(began))
		}
		to.read()
		queue.Close(time.Second)
		time.Sleep(time.Hour)
	})
}
