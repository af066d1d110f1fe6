package link

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"
)

// frame returns an HTTP/2 frame of stream 1.
func frame(kind byte, payload []byte) []byte {
	length := len(payload)
	return append([]byte{byte(length >> 16), byte(length >> 8), byte(length), kind, 0, 0, 0, 0, 1}, payload...)
}

func TestFramesAreFoundInPiecesOfAnyLength(t *testing.T) {
	sent := bytes.Repeat([]byte{0}, prefaceBytes)
	for _, each := range [][]byte{
		frame(4, nil), frame(dataFrame, make([]byte, 70_000)), frame(1, make([]byte, 20)), frame(dataFrame, nil),
		frame(dataFrame, []byte{0, 0, 9, 0}),
	} {
		sent = append(sent, each...)
	}
	for _, length := range []int{1, 2, 7, 9, 10, 4096, len(sent)} {
		scanner, lengths := newFrameScanner(), []int(nil)
		for piece := range slices.Chunk(sent, length) {
			scanner.scan(piece, func(length int) { lengths = append(lengths, length) })
		}
		if !slices.Equal(lengths, []int{70_000, 0, 4}) {
			t.Errorf("in pieces of %d bytes: frames of data with %v bytes", length, lengths)
		}
	}
}

// A newTestMeteredConn reads what a client sends.
func newTestMeteredConn(b *memoryBudget, sent ...[]byte) (m *meteredConn, read func() error) {
	from := bytes.NewReader(append(make([]byte, prefaceBytes), bytes.Join(sent, nil)...))
	m = newMeteredConn(recordedConn{reader: from}, b, "10.0.0.1", func() {})
	return m, func() error {
		_, err := io.Copy(io.Discard, readerOnly{m})
		return err
	}
}

type recordedConn struct {
	net.Conn
	reader io.Reader
}

func (r recordedConn) Read(into []byte) (int, error) { return r.reader.Read(into) }
func (r recordedConn) Close() error                  { return nil }

type readerOnly struct{ io.Reader }

// A stream reads its messages one by one. Unread bytes count for its namespace, and before that for its address.
func TestMeteredConnCountsUnreadBytes(t *testing.T) {
	const size = 10 << 10
	b := newMemoryBudget(1 << 20)
	m, read := newTestMeteredConn(b, frame(dataFrame, make([]byte, size)), frame(dataFrame, make([]byte, size)),
		frame(dataFrame, make([]byte, 10)))
	if err := read(); err != nil {
		t.Fatal(err)
	}
	if got := b.reservedByHolder["address/10.0.0.1"]; got != 2*(size+frameOverheadBytes) {
		t.Errorf("%d bytes count for the address", got)
	}
	share := b.forNamespace("ns")
	if !m.beginStream(share) || len(b.reservedByHolder) != 1 {
		t.Fatalf("held after the stream began: %v", b.reservedByHolder)
	}
	for n, want := range []int{2, 1, 1, 0} {
		if got := b.reservedByHolder["namespace/ns"]; got != want*(size+frameOverheadBytes) {
			t.Errorf("after %d messages %d bytes count, want %d frames", n, got, want)
		}
		m.markDelivered([]int{size, size - 1, 1, 10}[n])
	}
	m.endStream()
	if err := m.Close(); err != nil || b.total != 0 || len(b.reservedByHolder) != 0 {
		t.Errorf("held at the end: %v", b.reservedByHolder)
	}
}

// A frame of one byte takes many times as much memory.
func TestMeteredConnCountsFramesAtTheirSizeInMemory(t *testing.T) {
	const frames = 1000
	b := newMemoryBudget(frames * frameOverheadBytes)
	m, read := newTestMeteredConn(b, bytes.Repeat(frame(dataFrame, []byte{0}), frames))
	_ = m.beginStream(b.forNamespace("ns"))
	go func() {
		<-m.overflow()
		m.endStream()
	}()
	if err := read(); err != nil {
		t.Errorf("what follows the end of a stream is read and dropped: %v", err)
	}
	select {
	case <-m.overflow():
	default:
		t.Errorf("%d frames of one byte found room for half of them", frames)
	}
}

// No handler could end a connection without a stream.
func TestConnectionThatProvesNothingIsClosedWhenItHasNoRoom(t *testing.T) {
	m, read := newTestMeteredConn(newMemoryBudget(100<<10), bytes.Repeat(frame(dataFrame, make([]byte, 16<<10)), 20))
	if err := read(); err == nil {
		t.Error("everything was read")
	}
	_ = m.Close()
	if m.budget.total != 0 {
		t.Errorf("held after it was closed: %v", m.budget.reservedByHolder)
	}
}
