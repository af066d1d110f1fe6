package agent

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/process/nonblocking"
)

// flushTimeout is how long a stopping agent waits for logs and journal to be written.
const flushTimeout = time.Second

// journal writes a line for each start and finish of an attempt, and for each acknowledgement of a result, as this agent saw them: evidence
// that does not depend on what reached the operator.
type journal struct {
	file  *nonblocking.Journal
	agent string
}

type entry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // start, finish, acknowledge
	Agent   string    `json:"agent"`
	Task    string    `json:"task"`
	UID     string    `json:"uid"`
	Item    *int32    `json:"item,omitempty"`
	Attempt int32     `json:"attempt"`
	Epoch   int64     `json:"epoch"`
	Outcome string    `json:"outcome,omitempty"`
	Fenced  bool      `json:"fenced,omitempty"`
}

// openJournal opens the file, or nothing when there is no name.
func openJournal(name, agent string, log *slog.Logger) (*journal, error) {
	if name == "" {
		return &journal{agent: agent}, nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &journal{file: nonblocking.NewJournal(file, log), agent: agent}, nil
}

func (j *journal) close() { j.file.Close(flushTimeout) }

// Started is called before the code starts.
func (j *journal) Started(attempt *linkv1.Attempt) {
	j.file.Append(j.newEntry("start", attempt))
}

// Finished is called when nothing of the attempt runs any more.
func (j *journal) Finished(attempt *linkv1.Attempt, outcome linkv1.Outcome, fenced bool) {
	logged := j.newEntry("finish", attempt)
	logged.Outcome = strings.ToLower(strings.TrimPrefix(outcome.String(), "OUTCOME_"))
	logged.Fenced = fenced
	j.file.Append(logged)
}

// Acknowledged is called when the operator has stored a result, so that the agent may drop it.
func (j *journal) Acknowledged(attempt *linkv1.Attempt) {
	j.file.Append(j.newEntry("acknowledge", attempt))
}

func (j *journal) newEntry(event string, attempt *linkv1.Attempt) entry {
	return entry{
		Time: time.Now(), Event: event, Agent: j.agent, Task: attempt.GetTask(), UID: attempt.GetTaskUid(),
		Item: attempt.Item, Attempt: attempt.GetAttempt(), Epoch: attempt.GetEpoch(),
	}
}
