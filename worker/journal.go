package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
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

// openJournal opens the file, or nothing when there is no name. The first line, boot, says that what this worker had
// started before has ended with its process.
func openJournal(config Config) (*journal, io.Closer, error) {
	opened := &journal{to: io.Discard, worker: config.Worker, podUID: config.PodUID}
	if config.Journal == "" {
		return opened, io.NopCloser(nil), nil
	}
	file, err := os.OpenFile(config.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	opened.to = file
	opened.write(entry{Event: "boot"})
	return opened, file, nil
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

// Acknowledged is called before anybody can see the acknowledgement.
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
