package worker

import (
	"fmt"
	"os"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/nonblocking"
)

// journal writes a line for each start, stop and acknowledgement, as this worker saw them: evidence that does not depend on what reached
// the operator.
type journal struct {
	file           *nonblocking.Journal
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
func openJournal(config Config) (*journal, error) {
	j := &journal{worker: config.Worker, podUID: config.PodUID}
	if config.Journal == "" {
		return j, nil
	}
	file, err := os.OpenFile(config.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.file = nonblocking.NewJournal(file, config.log())
	j.writeEntry(entry{Event: "boot"})
	return j, nil
}

func (j *journal) close() { j.file.Close(flushTimeout) }

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

func (j *journal) writeEntry(logged entry) {
	logged.Time, logged.Worker, logged.PodUID = time.Now(), j.worker, j.podUID
	j.file.Append(logged)
}
