package command

import (
	"bytes"
	"strings"
	"sync"
)

// A head keeps the beginning of what is written and swallows the rest, so that the program never blocks.
type head struct {
	most     int
	kept     []byte
	overflow bool
}

func (h *head) Write(text []byte) (int, error) {
	room := min(h.most-len(h.kept), len(text))
	h.kept = append(h.kept, text[:room]...)
	h.overflow = h.overflow || room < len(text)
	return len(text), nil
}

// A tail keeps the end.
type tail struct {
	most int
	mu   sync.Mutex // a descendant may still write when the program's end is read
	kept []byte
}

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, text[max(0, len(text)-t.most):]...)
	if surplus := len(t.kept) - t.most; surplus > 0 {
		t.kept = append(t.kept[:0], t.kept[surplus:]...)
	}
	return len(text), nil
}

// lines is how many of the last lines are worth reading.
const lines = 10

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	split := bytes.Split(bytes.TrimSpace(t.kept), []byte("\n"))
	split = split[max(0, len(split)-lines):]
	return strings.ToValidUTF8(string(bytes.Join(split, []byte("\n"))), "\uFFFD")
}
