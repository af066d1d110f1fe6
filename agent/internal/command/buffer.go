package command

import (
	"bytes"
	"strings"
	"sync"
)

// A headBuffer keeps the beginning of what is written and discards the rest, so that the program never blocks.
type headBuffer struct {
	maxBytes int
	content  []byte
	overflow bool
}

func (h *headBuffer) Write(text []byte) (int, error) {
	room := min(h.maxBytes-len(h.content), len(text))
	h.content = append(h.content, text[:room]...)
	h.overflow = h.overflow || room < len(text)
	return len(text), nil
}

// A tailBuffer keeps the end of what is written.
type tailBuffer struct {
	maxBytes int
	mu       sync.Mutex // a descendant may still write when the program's end is read
	content  []byte
}

func (t *tailBuffer) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.content = append(t.content, text[max(0, len(text)-t.maxBytes):]...)
	if surplus := len(t.content) - t.maxBytes; surplus > 0 {
		t.content = append(t.content[:0], t.content[surplus:]...)
	}
	return len(text), nil
}

// maxStderrLines is how many of the last lines a message holds.
const maxStderrLines = 10

func (t *tailBuffer) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	split := bytes.Split(bytes.TrimSpace(t.content), []byte("\n"))
	split = split[max(0, len(split)-maxStderrLines):]
	return strings.ToValidUTF8(string(bytes.Join(split, []byte("\n"))), "\uFFFD")
}
