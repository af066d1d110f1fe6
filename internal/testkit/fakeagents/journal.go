package fakeagents

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// journalFile is shared by all agents of a set: each line is one write.
const journalFile = "journal.jsonl"

// An Entry is the start or the end of an attempt, as its agent saw it.
type Entry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // start or finish
	Agent   string    `json:"agent"`
	Task    string    `json:"task"`
	UID     string    `json:"uid"`
	Item    *int32    `json:"item"` // nil for a task without items
	Attempt int32     `json:"attempt"`
	Epoch   int64     `json:"epoch"`
	Outcome string    `json:"outcome"`
	Fenced  bool      `json:"fenced"` // ended by the agent's lease
}

func (e Entry) String() string {
	return fmt.Sprintf("%s of %s, attempt %d, epoch %d.%d, on %s at %s", e.Event, e.Task, e.Attempt, e.Epoch>>32, e.Epoch&(1<<32-1), e.Agent,
		e.Time.Format("15:04:05.000"))
}

// A Journal holds what agents have recorded, by time.
type Journal []Entry

func readJournal(folder string) Journal {
	file, err := os.Open(filepath.Join(folder, journalFile))
	if err != nil {
		return nil // there was no attempt
	}
	defer file.Close()
	var journal Journal
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var entry Entry
		if json.Unmarshal(lines.Bytes(), &entry) == nil { // the last line may be incomplete
			journal = append(journal, entry)
		}
	}
	slices.SortStableFunc(journal, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	return journal
}

// workKey identifies work that must never be done twice at once.
type workKey struct {
	uid  string
	item int32
}

func (e Entry) workKey() workKey {
	if e.Item == nil {
		return workKey{e.UID, -1}
	}
	return workKey{e.UID, *e.Item}
}

// Verify returns an error for attempts at the same work that overlap, or whose epochs do not grow.
func (j Journal) Verify() error {
	var problems []error
	running, newest := map[workKey]*Entry{}, map[workKey]*Entry{}
	for n := range j {
		entry := &j[n]
		key := entry.workKey()
		if entry.Event != "start" {
			if running[key] != nil && running[key].Epoch == entry.Epoch {
				running[key] = nil
			}
			continue
		}
		if other := running[key]; other != nil {
			problems = append(problems, fmt.Errorf("two attempts at once: %s, and %s while that had not finished", *other, *entry))
		}
		if last := newest[key]; last != nil && last.Epoch >= entry.Epoch {
			problems = append(problems, fmt.Errorf("epochs do not grow: %s, after that %s", *last, *entry))
		}
		running[key], newest[key] = entry, entry
	}
	return errors.Join(problems...)
}
