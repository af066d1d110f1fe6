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
		scanner, found := newFrameScanner(), []int(nil)
		for piece := range slices.Chunk(sent, length) {
			scanner.scan(piece, func(length int) { found = append(found, length) })
		}
		if !slices.Equal(found, []int{70_000, 0, 4}) {
			t.Errorf("in pieces of %d bytes: frames of data with %v bytes", length, found)
		}
	}
}

// A meterOf reads what a client sends.
func meterOf(b *budget, sent ...[]byte) (m *meter, read func() error) {
	from := bytes.NewReader(append(make([]byte, prefaceBytes), bytes.Join(sent, nil)...))
	m = newMeter(recorded{from: from}, b, "10.0.0.1", func() {})
	return m, func() error {
		_, err := io.Copy(io.Discard, onlyReader{m})
		return err
	}
}

type recorded struct {
	net.Conn
	from io.Reader
}

func (r recorded) Read(into []byte) (int, error) { return r.from.Read(into) }
func (r recorded) Close() error                  { return nil }

type onlyReader struct{ io.Reader }

// A stream reads its messages one by one. Unread bytes count for its namespace, and before that for its address.
func TestMeterCountsWhatTheStreamHasNotRead(t *testing.T) {
	const size = 10 << 10
	b := newBudget(1 << 20)
	m, read := meterOf(b, frame(dataFrame, make([]byte, size)), frame(dataFrame, make([]byte, size)), frame(dataFrame, make([]byte, 10)))
	if err := read(); err != nil {
		t.Fatal(err)
	}
	if got := b.held["address/10.0.0.1"]; got != 2*(size+frameOverhead) {
		t.Errorf("%d bytes count for the address", got)
	}
	share := b.forNamespace("ns")
	if !m.begin(share) || len(b.held) != 1 {
		t.Fatalf("held after the stream began: %v", b.held)
	}
	for n, want := range []int{2, 1, 1, 0} {
		if got := b.held["namespace/ns"]; got != want*(size+frameOverhead) {
			t.Errorf("after %d messages %d bytes count, want %d frames", n, got, want)
		}
		m.took([]int{size, size - 1, 1, 10}[n])
	}
	m.end()
	if err := m.Close(); err != nil || b.sum != 0 || len(b.held) != 0 {
		t.Errorf("held at the end: %v", b.held)
	}
}

// A frame of one byte takes many times as much memory.
func TestMeterCountsFramesAtTheirSizeInMemory(t *testing.T) {
	const frames = 1000
	b := newBudget(frames * frameOverhead)
	m, read := meterOf(b, bytes.Repeat(frame(dataFrame, []byte{0}), frames))
	_ = m.begin(b.forNamespace("ns"))
	go func() {
		<-m.overflows()
		m.end()
	}()
	if err := read(); err != nil {
		t.Errorf("what follows the end of a stream is read and dropped: %v", err)
	}
	select {
	case <-m.overflows():
	default:
		t.Errorf("%d frames of one byte found room for half of them", frames)
	}
}

// No handler could end a connection without a stream.
func TestConnectionThatProvesNothingIsClosedWhenItHasNoRoom(t *testing.T) {
	m, read := meterOf(newBudget(100<<10), bytes.Repeat(frame(dataFrame, make([]byte, 16<<10)), 20))
	if err := read(); err == nil {
		t.Error("everything was read")
	}
	_ = m.Close()
	if m.budget.sum != 0 {
		t.Errorf("held after it was closed: %v", m.budget.held)
	}
}
