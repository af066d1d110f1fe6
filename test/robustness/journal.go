package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/process/watchdog"
)

// Kinds of events.
const (
	eventStarted      = "start"       // of an attempt, by its agent
	eventEnded        = "end"         // of an attempt, by its agent
	eventAcknowledged = "acknowledge" // of a result, by its agent
	eventExited       = "exit"        // of an agent's process, which is dead
	eventSuspended    = "suspend"     // of an agent's process, which is suspended
	eventResumed      = "resume"      // of an agent's process, which is about to be resumed
	eventStored       = "store"       // of a Task: what the API server holds
	eventRequested    = "request"     // of a user: a Task is about to be created, or its spec.desired to be changed
	eventElected      = "elect"       // of an operator's process, with the term as the epoch of no attempt
	eventFault        = "fault"
)

// Outcomes of an attempt, as its code saw it.
const (
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
	outcomeStopped   = "stopped"
)

// An Event is a line of the journal. Agents and this program share one file.
type Event struct {
	At      time.Duration `json:"at"` // by a clock that counts suspension, and that is the same for all processes
	Kind    string        `json:"kind"`
	Process string        `json:"process,omitempty"`
	Task    string        `json:"task,omitempty"`
	UID     string        `json:"uid,omitempty"`
	Epoch   int64         `json:"epoch,omitempty"`
	Run     string        `json:"run,omitempty"`     // names an attempt at running the code, and no other; successful code returns it as the result
	Outcome string        `json:"outcome,omitempty"` // of an attempt
	Stored  *StoredTask   `json:"stored,omitempty"`
	Request *Request      `json:"request,omitempty"`
	Note    string        `json:"note,omitempty"`
}

// A StoredTask is the relevant part of a Task as stored by the API server.
type StoredTask struct {
	Version  uint64 `json:"version"`         // its resource version
	Phase    string `json:"phase,omitempty"` // a final one, or empty
	Reason   string `json:"reason,omitempty"`
	Assigned bool   `json:"assigned,omitempty"`
	Retries  int32  `json:"retries,omitempty"`
	Result   string `json:"result,omitempty"` // the run that returned it

	Reassignments int32 `json:"reassignments,omitempty"`
	HandBacks     int32 `json:"handBacks,omitempty"`
}

// A Request is a user's request for a Task. Limits are given when it is created.
type Request struct {
	Desired      v1alpha1.TaskDesire `json:"desired"`
	QueueSeconds int32               `json:"queueSeconds,omitempty"`
	RunSeconds   int32               `json:"runSeconds,omitempty"`
	TotalSeconds int32               `json:"totalSeconds,omitempty"`
}

func (e Event) String() string {
	text := fmt.Sprintf("%11.3f %-11s", e.At.Seconds(), e.Kind)
	if e.Process != "" {
		text += " " + e.Process
	}
	if e.Task != "" {
		text += fmt.Sprintf(" %s epoch %d.%d", e.Task, e.Epoch>>32, e.Epoch&(1<<32-1))
	}
	if e.Run != "" {
		text += " run " + e.Run
	}
	if e.Outcome != "" {
		text += " " + e.Outcome
	}
	if e.Stored != nil {
		text += " " + encode(e.Stored)
	}
	if e.Request != nil {
		text += " " + encode(e.Request)
	}
	if e.Note != "" {
		text += " " + e.Note
	}
	return text
}

// isAboutLeader reports whether an event is about leaders or about the API server.
func (e Event) isAboutLeader() bool {
	isFault := func(one weight) bool { return e.Kind == eventFault && strings.HasPrefix(e.Note, one.kind+" ") }
	return e.Kind == eventElected || slices.ContainsFunc(leaderFaults.weights, isFault)
}

func encode(value any) string {
	encoded, _ := json.Marshal(value)
	return string(encoded)
}

// A Journal is appended to by several processes. Each event is one write, which the kernel does not mix with others.
type Journal struct {
	mu   sync.Mutex
	file *os.File
}

func openJournal(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &Journal{file: file}, nil
}

// Write returns when the event is in the file, so that it is recorded even if the process is killed next.
func (j *Journal) Write(event Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	event.At = watchdog.BootTime()
	line, err := json.Marshal(event)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("write journal: %v", err)) // without a record the run proves nothing
	}
}

// readJournal returns all events in the order of time. The last line of a process that was killed may be missing, but never half of it.
func readJournal(path string) ([]Event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	defer file.Close()
	var events []Event
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var event Event
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("read journal: line %q: %w", scanner.Text(), err)
		}
		events = append(events, event)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events, scanner.Err()
}
