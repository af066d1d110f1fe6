package link

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// frameOverhead is the most that gRPC needs for a frame besides its bytes: it joins small ones only while they wait to
	// be read. Without it, a client could exceed its share many times over with frames of one byte.
	frameOverhead = 64
	// blockBytes is how much a connection may receive before it is counted: most agents never reach that.
	blockBytes = 4 << 10
	// prefixBytes is what gRPC puts before each message.
	prefixBytes = 5
)

var errNoRoomToReceive = errors.New("too much is received at the moment")

// A meter is a connection that counts what gRPC has received on it and not passed on yet. That can be a whole message of the
// largest size for each stream: gRPC opens its window to the length of the message that it has begun to read. The bytes count
// for the source address of the connection, and for the namespace of an agent while its stream lasts. When there is no room,
// the connection is no longer read.
type meter struct {
	net.Conn
	budget *budget
	source string
	refuse func() // counts a connection that is closed for lack of room
	frames frameScanner

	mu        sync.Mutex
	share     *allowance
	streaming bool  // share belongs to a stream
	received  int64 // bytes in DATA frames
	taken     int64 // of these, in messages that were passed on
	blocks    []block
	open      block // not counted yet
	full      bool

	overflowed chan struct{} // closed when the current stream has no room
	over       chan struct{} // closed when the current stream has ended
}

// A block is a part of the received bytes: where it ends, and what it costs.
type block struct {
	end  int64
	cost int
}

func newMeter(connection net.Conn, budget *budget, source string, refuse func()) *meter {
	return &meter{
		Conn: connection, budget: budget, source: source, refuse: refuse, frames: newFrameScanner(), share: budget.forSource(source),
	}
}

// Read is called by gRPC.
func (m *meter) Read(into []byte) (int, error) {
	if !m.mayRead() {
		return 0, errNoRoomToReceive
	}
	n, err := m.Conn.Read(into)
	m.frames.scan(into[:n], m.add)
	return n, err
}

// mayRead gives a stream without room some time to report that.
func (m *meter) mayRead() bool {
	m.mu.Lock()
	full, streaming, over := m.full, m.streaming, m.over
	m.mu.Unlock()
	switch {
	case !full:
		return true
	case !streaming:
		m.refuse()
		return false
	}
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-timer.C:
		return false
	}
}

// add counts a frame.
func (m *meter) add(length int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.received += int64(length)
	m.open.end, m.open.cost = m.received, m.open.cost+length+frameOverhead
	if m.open.cost < blockBytes || m.full {
		return
	}
	if !m.share.take(m.open.cost) {
		m.overflow()
		return
	}
	m.blocks, m.open = append(m.blocks, m.open), block{}
}

func (m *meter) overflow() {
	m.full = true
	if m.streaming {
		close(m.overflowed)
	}
}

// took records that a message was passed on.
func (m *meter) took(bytes int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.streaming {
		return // the stream has ended meanwhile
	}
	m.taken += int64(bytes)
	for len(m.blocks) > 0 && m.blocks[0].end <= m.taken {
		m.share.give(m.blocks[0].cost)
		m.blocks = m.blocks[1:]
	}
	if m.open.end <= m.taken {
		m.open = block{}
	}
}

// begin counts for a stream from now on, and reports whether there is room. A connection has one stream at a time.
func (m *meter) begin(share *allowance) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	cost := 0
	for _, each := range m.blocks {
		cost += each.cost
	}
	if !share.take(cost) {
		return false
	}
	m.share.release()
	m.share, m.streaming = share, true
	m.overflowed, m.over = make(chan struct{}), make(chan struct{})
	if m.full {
		close(m.overflowed)
	}
	return true
}

// end counts for the address again. gRPC drops what the stream has not read.
func (m *meter) end() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.streaming {
		return // there was no room to begin
	}
	m.share.release()
	m.share, m.streaming = m.budget.forSource(m.source), false
	m.blocks, m.open, m.full, m.taken = nil, block{}, false, m.received
	close(m.over)
}

// overflows is closed when the stream of the connection has no room for what it receives.
func (m *meter) overflows() <-chan struct{} {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.overflowed
}

// Close releases what was counted. The stream of the connection ends, and releases its own share.
func (m *meter) Close() error {
	m.mu.Lock()
	if !m.streaming {
		m.share.release()
	}
	m.mu.Unlock()
	return m.Conn.Close()
}
