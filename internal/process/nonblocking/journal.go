package nonblocking

import (
	"encoding/json"
	"io"
	"log/slog"
	"time"
)

// A Journal is a file that gets a line of JSON for each entry. Entries that a volume does not take in time are dropped and logged: a volume
// that hangs must not stop the work. A nil Journal writes nothing.
type Journal struct {
	file   io.WriteCloser
	writer *Writer
}

// NewJournal returns a journal in a file, which it closes in the end.
func NewJournal(file io.WriteCloser, log *slog.Logger) *Journal {
	return &Journal{file: file, writer: NewWriter(file, 0, func(dropped int) {
		log.Warn("dropped journal entries because the volume did not answer", "dropped", dropped)
	})}
}

// Append appends one line by one call, so that processes may share a file. A full disk must not stop the work.
func (j *Journal) Append(entry any) {
	if j == nil {
		return
	}
	if encoded, err := json.Marshal(entry); err == nil {
		_, _ = j.writer.Write(append(encoded, '\n'))
	}
}

// Close waits no longer than the timeout for entries to be written.
func (j *Journal) Close(timeout time.Duration) {
	if j == nil {
		return
	}
	j.writer.Close(timeout)
	_ = j.file.Close()
}
