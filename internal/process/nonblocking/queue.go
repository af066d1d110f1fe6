// Package nonblocking keeps blocked output from stopping the code that produces it.
//
// A pipe whose reader hangs, or a volume that does not respond, blocks a write forever. Code that must act in time therefore passes its
// logs, journals and copies to a Queue: one goroutine writes them in order, and what does not fit is dropped and counted. It promises that
// callers wait no longer than their patience, and that memory is bounded. It never retries a write, and does not interpret what it writes.
package nonblocking

import (
	"sync"
	"time"
)

// A Queue runs writes one after the other.
type Queue struct {
	limit  int               // bytes
	report func(dropped int) // called by the queue's own goroutine when a write has succeeded after others were dropped

	mu           sync.Mutex
	waiting      []write
	size         int // bytes that wait or are being written
	dropped      int // since the last report
	totalDropped int
	stuck        bool // a wait for room timed out: writers do not wait again until there is some
	closed       bool
	wakeup       chan struct{} // has room for one
	spaceFreed   chan struct{} // closed and replaced when a write has ended
}

type write struct {
	size int
	do   func()
}

// NewQueue returns a queue with a size in bytes. Report may be nil. It may block, because only the queue's own goroutine waits for it.
func NewQueue(limit int, report func(dropped int)) *Queue {
	if report == nil {
		report = func(int) {}
	}
	q := &Queue{limit: limit, report: report, wakeup: make(chan struct{}, 1), spaceFreed: make(chan struct{})}
	go q.run()
	return q
}

// Put queues a write of about this many bytes. It waits for room for at most its patience, and reports whether there was room.
func (q *Queue) Put(timeout time.Duration, size int, do func()) bool {
	var expired <-chan time.Time
	for {
		done, freed, wait := q.tryPut(write{size, do}, timeout > 0)
		if !wait {
			return done
		}
		if expired == nil {
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-freed:
		case <-expired:
			timeout = 0
			q.markStuck()
		}
	}
}

// tryPut queues a write if there is room. If there is none it returns whether to wait, and for what.
func (q *Queue) tryPut(next write, mayWait bool) (done bool, freed <-chan struct{}, wait bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !q.closed && (q.size == 0 || q.size+next.size <= q.limit):
		q.waiting = append(q.waiting, next)
		q.size += next.size
		q.wakeWriter()
		return true, nil, false
	case mayWait && !q.stuck && !q.closed:
		return false, q.spaceFreed, true
	}
	q.dropped++
	q.totalDropped++
	return false, nil, false
}

func (q *Queue) markStuck() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stuck = true
}

func (q *Queue) wakeWriter() {
	select {
	case q.wakeup <- struct{}{}:
	default:
	}
}

// Dropped returns how many writes were dropped in total.
func (q *Queue) Dropped() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.totalDropped
}

// Flush waits until everything queued is written, for at most its patience.
func (q *Queue) Flush(timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		q.mu.Lock()
		freed, empty := q.spaceFreed, q.size == 0 && len(q.waiting) == 0
		q.mu.Unlock()
		if empty {
			return
		}
		select {
		case <-freed:
		case <-timer.C:
			return
		}
	}
}

// Close flushes the queue, which then accepts no more writes.
func (q *Queue) Close(timeout time.Duration) {
	q.Flush(timeout)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeWriter()
}

func (q *Queue) run() {
	for {
		next, more := q.next()
		switch {
		case next != nil:
			next.do()
			q.finish(next.size)
		case !more:
			return
		default:
			<-q.wakeup
		}
	}
}

func (q *Queue) next() (first *write, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil, !q.closed
	}
	first = &q.waiting[0]
	q.waiting = q.waiting[1:]
	return first, true
}

// finish makes room, and reports what was dropped before the pipe was read again.
func (q *Queue) finish(size int) {
	q.mu.Lock()
	dropped := q.dropped
	q.dropped = 0
	q.mu.Unlock()
	if dropped > 0 {
		q.report(dropped)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size -= size
	q.stuck = false
	close(q.spaceFreed)
	q.spaceFreed = make(chan struct{})
}
