package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/nonblocking"
)

// journal writes a line for each start, stop and acknowledgement, as this worker saw them: evidence that does not depend on what reached
// the operator.
type journal struct {
	writer         io.Writer
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

// openJournal opens the file, or nothing if it has no name. The first line, boot, records that everything this worker started before has
// ended with its process. Entries that a volume does not accept in time are dropped and logged: a hanging volume must not stop the worker.
func openJournal(config Config) (j *journal, closeFile func(), err error) {
	j = &journal{writer: io.Discard, worker: config.Worker, podUID: config.PodUID}
	if config.Journal == "" {
		return j, func() {}, nil
	}
	file, err := os.OpenFile(config.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	writer := nonblocking.NewWriter(file, 0, func(dropped int) {
		config.log().Warn("dropped journal entries because the volume did not answer", "dropped", dropped)
	})
	j.writer = writer
	j.writeEntry(entry{Event: "boot"})
	return j, func() {
		writer.Close(flushTimeout)
		_ = file.Close()
	}, nil
}

// Started is called before the job starts.
func (j *journal) Started(job string) { j.writeEntry(entry{Event: "start", Job: job}) }

// Stopped is called when nothing of the job runs any more, or when it did not start.
func (j *journal) Stopped(job string, err error) {
	logged := entry{Event: "stop", Job: job}
	if err != nil {
		logged.Error = err.Error()
	}
	j.writeEntry(logged)
}

// Acknowledged is called before the acknowledgement is visible.
func (j *journal) Acknowledged(version, config int64) {
	j.writeEntry(entry{Event: "acknowledge", Version: &version, Config: &config})
}

// writeEntry appends one line with one call, so that workers may share a file. A full disk must not stop the work.
func (j *journal) writeEntry(logged entry) {
	logged.Time, logged.Worker, logged.PodUID = time.Now(), j.worker, j.podUID
	if encoded, err := json.Marshal(logged); err == nil {
		_, _ = j.writer.Write(append(encoded, '\n'))
	}
}
