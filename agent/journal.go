package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// journal writes a line for each start and finish of an attempt, as this agent saw them: a witness that does not depend
// on what reached the operator.
type journal struct {
	to    io.Writer
	agent string
}

type entry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // start, finish
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
func openJournal(name, agent string) (*journal, io.Closer, error) {
	if name == "" {
		return &journal{to: io.Discard, agent: agent}, io.NopCloser(nil), nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	return &journal{to: file, agent: agent}, file, nil
}

// Started is called before the code starts.
func (j *journal) Started(attempt *linkv1.Attempt) {
	j.write(j.entry("start", attempt))
}

// Finished is called when nothing of the attempt runs any more.
func (j *journal) Finished(attempt *linkv1.Attempt, outcome linkv1.Outcome, fenced bool) {
	line := j.entry("finish", attempt)
	line.Outcome = strings.ToLower(strings.TrimPrefix(outcome.String(), "OUTCOME_"))
	line.Fenced = fenced
	j.write(line)
}

func (j *journal) entry(event string, attempt *linkv1.Attempt) entry {
	return entry{
		Time: time.Now(), Event: event, Agent: j.agent, Task: attempt.GetTask(), UID: attempt.GetTaskUid(),
		Item: attempt.Item, Attempt: attempt.GetAttempt(), Epoch: attempt.GetEpoch(),
	}
}

// write appends one line by one call, so that agents may share a file. A full disk must not stop the work.
func (j *journal) write(line entry) {
	if encoded, err := json.Marshal(line); err == nil {
		_, _ = j.to.Write(append(encoded, '\n'))
	}
}
