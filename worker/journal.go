package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/swarm-io/swarm-operator/internal/nonblocking"
)

// journal writes a line for each start, stop and acknowledgement, as this worker saw them: a witness that does not depend
// on what reached the operator.
type journal struct {
	to             io.Writer
	worker, podUID string
}

type entry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // boot, start, stop, acknowledge
	Worker  string    `json:"worker"`
	PodUID  string    `json:"podUID"`
	Job     string    `json:"job,omitempty"`
	Version *int64    `json:"version,omitempty"`
	Config  *int64    `json:"config,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// openJournal opens the file, or nothing when there is no name. The first line, boot, records that what this worker had
// started before has ended with its process.
// Entries that a volume does not take in time are dropped and logged: a volume that hangs must not stop the worker.
func openJournal(config Config) (opened *journal, closing func(), err error) {
	opened = &journal{to: io.Discard, worker: config.Worker, podUID: config.PodUID}
	if config.Journal == "" {
		return opened, func() {}, nil
	}
	file, err := os.OpenFile(config.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	writer := nonblocking.NewWriter(file, 0, func(dropped int) {
		config.log().Warn("dropped journal entries because the volume did not answer", "dropped", dropped)
	})
	opened.to = writer
	opened.write(entry{Event: "boot"})
	return opened, func() {
		writer.Close(flushTimeout)
		_ = file.Close()
	}, nil
}

// Started is called before the job starts.
func (j *journal) Started(job string) { j.write(entry{Event: "start", Job: job}) }

// Stopped is called when nothing of the job runs any more, or when it did not start.
func (j *journal) Stopped(job string, err error) {
	line := entry{Event: "stop", Job: job}
	if err != nil {
		line.Error = err.Error()
	}
	j.write(line)
}

// Acknowledged is called before the acknowledgement is visible.
func (j *journal) Acknowledged(version, config int64) {
	j.write(entry{Event: "acknowledge", Version: &version, Config: &config})
}

// write appends one line by one call, so that workers may share a file. A full disk must not stop the work.
func (j *journal) write(line entry) {
	line.Time, line.Worker, line.PodUID = time.Now(), j.worker, j.podUID
	if encoded, err := json.Marshal(line); err == nil {
		_, _ = j.to.Write(append(encoded, '\n'))
	}
}
