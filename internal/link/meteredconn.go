package link

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// frameOverheadBytes is the most that gRPC needs for a frame besides its bytes: it joins small ones only while they wait to
	// be read. Without it, a client could exceed its share many times over with frames of one byte.
	frameOverheadBytes = 64
	// countingThresholdBytes is how much a connection may receive before it is counted: most agents never reach that.
	countingThresholdBytes = 4 << 10
	// grpcPrefixBytes is what gRPC puts before each message.
	grpcPrefixBytes = 5
)

var errConnectionBudget = errors.New("too much is received at the moment")

// A meteredConn is a connection that counts what gRPC has received on it and not passed on yet. That can be a whole message of the
// largest size for each stream: gRPC opens its window to the length of the message that it has begun to read. The bytes count
// for the source address of the connection, and for the namespace of an agent while its stream lasts. When there is no room,
// the connection is no longer read.
type meteredConn struct {
	net.Conn
	budget   *memoryBudget
	source   string
	onRefuse func() // counts a connection that is closed for lack of room
	scanner  frameScanner

	mu             sync.Mutex
	reservation    *memoryReservation
	streaming      bool  // share belongs to a stream
	receivedBytes  int64 // bytes in DATA frames
	deliveredBytes int64 // of these, in messages that were passed on
	blocks         []countedBlock
	openBlock      countedBlock // not counted yet
	full           bool

	overflowed  chan struct{} // closed when the current stream has no room
	streamEnded chan struct{} // closed when the current stream has ended
}

// A countedBlock is a part of the received bytes: where it ends, and what it costs.
type countedBlock struct {
	end  int64
	cost int
}

func newMeteredConn(connection net.Conn, budget *memoryBudget, source string, onRefuse func()) *meteredConn {
	return &meteredConn{
		Conn: connection, budget: budget, source: source, onRefuse: onRefuse, scanner: newFrameScanner(), reservation: budget.forSource(source),
	}
}

// Read is called by gRPC.
func (m *meteredConn) Read(buffer []byte) (int, error) {
	if !m.awaitRead() {
		return 0, errConnectionBudget
	}
	n, err := m.Conn.Read(buffer)
	m.scanner.scan(buffer[:n], m.countFrame)
	return n, err
}

// awaitRead gives a stream without room some time to report that.
func (m *meteredConn) awaitRead() bool {
	m.mu.Lock()
	full, streaming, streamEnded := m.full, m.streaming, m.streamEnded
	m.mu.Unlock()
	switch {
	case !full:
		return true
	case !streaming:
		m.onRefuse()
		return false
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-streamEnded:
		return true
	case <-timer.C:
		return false
	}
}

// countFrame counts a frame.
func (m *meteredConn) countFrame(length int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.receivedBytes += int64(length)
	m.openBlock.end, m.openBlock.cost = m.receivedBytes, m.openBlock.cost+length+frameOverheadBytes
	if m.openBlock.cost < countingThresholdBytes || m.full {
		return
	}
	if !m.reservation.reserve(m.openBlock.cost) {
		m.markFull()
		return
	}
	m.blocks, m.openBlock = append(m.blocks, m.openBlock), countedBlock{}
}

func (m *meteredConn) markFull() {
	m.full = true
	if m.streaming {
		close(m.overflowed)
	}
}

// markDelivered records that a message was passed on.
func (m *meteredConn) markDelivered(bytes int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.streaming {
		return // the stream has ended meanwhile
	}
	m.deliveredBytes += int64(bytes)
	for len(m.blocks) > 0 && m.blocks[0].end <= m.deliveredBytes {
		m.reservation.release(m.blocks[0].cost)
		m.blocks = m.blocks[1:]
	}
	if m.openBlock.end <= m.deliveredBytes {
		m.openBlock = countedBlock{}
	}
}

// beginStream counts for a stream from now on, and reports whether there is room. A connection has one stream at a time.
func (m *meteredConn) beginStream(reservation *memoryReservation) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	cost := 0
	for _, b := range m.blocks {
		cost += b.cost
	}
	if !reservation.reserve(cost) {
		return false
	}
	m.reservation.releaseAll()
	m.reservation, m.streaming = reservation, true
	m.overflowed, m.streamEnded = make(chan struct{}), make(chan struct{})
	if m.full {
		close(m.overflowed)
	}
	return true
}

// endStream counts for the address again. gRPC drops what the stream has not read.
func (m *meteredConn) endStream() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.streaming {
		return // there was no room to begin
	}
	m.reservation.releaseAll()
	m.reservation, m.streaming = m.budget.forSource(m.source), false
	m.blocks, m.openBlock, m.full, m.deliveredBytes = nil, countedBlock{}, false, m.receivedBytes
	close(m.streamEnded)
}

// overflow is closed when the stream of the connection has no room for what it receives.
func (m *meteredConn) overflow() <-chan struct{} {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.overflowed
}

// Close releases what was counted. The stream of the connection ends, and releases its own share.
func (m *meteredConn) Close() error {
	m.mu.Lock()
	if !m.streaming {
		m.reservation.releaseAll()
	}
	m.mu.Unlock()
	return m.Conn.Close()
}
