// Package roster reads the file that a pool publishes: which jobs are this worker's, and their version.
//
// It promises that what it returns is whole: a file that is cut off, contains something twice or has no version is an error,
// never an empty list. Keys that it does not know are left alone, so that an older worker reads a newer file.
package roster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// A Roster is the part of the file that concerns one worker.
type Roster struct {
	Version int64    // of the file
	Own     int64    // of this worker's list; 0 when the file does not name the worker
	Jobs    []string // sorted, each once
}

// Equal reports whether the two rosters have the same content.
func (r Roster) Equal(other Roster) bool {
	return r.Version == other.Version && r.Own == other.Own && slices.Equal(r.Jobs, other.Jobs)
}

// Lists reports whether the job is the worker's.
func (r Roster) Lists(job string) bool {
	_, found := slices.BinarySearch(r.Jobs, job)
	return found
}

type file struct {
	Version   *int64           `json:"version"`
	Workloads map[string]*list `json:"workloads"`
}

type list struct {
	Jobs    []string `json:"jobs"`
	Version int64    `json:"version"`
}

// Parse finds the worker's part. A worker that is not named has no jobs.
func Parse(content []byte, worker string) (Roster, error) {
	strict, err := yaml.YAMLToJSONStrict(content) // strict about keys that are there twice
	if err != nil {
		return Roster{}, fmt.Errorf("parse YAML: %w", err)
	}
	var read file
	if err := json.Unmarshal(strict, &read); err != nil {
		return Roster{}, fmt.Errorf("read lists: %w", err)
	}
	if read.Version == nil {
		return Roster{}, errors.New("read version: there is none")
	}
	own := read.Workloads[worker]
	if own == nil {
		own = &list{}
	}
	if *read.Version < 0 || own.Version < 0 {
		return Roster{}, fmt.Errorf("read version: %d of the file and %d of %s: one is negative", *read.Version, own.Version, worker)
	}
	jobs := slices.Sorted(slices.Values(own.Jobs))
	if len(jobs) > 0 && jobs[0] == "" {
		return Roster{}, fmt.Errorf("read jobs of %s: one has no name", worker)
	}
	return Roster{Version: *read.Version, Own: own.Version, Jobs: slices.Compact(jobs)}, nil
}

// ParseFloor reads the version that the file must have reached before anything starts: the pod's annotation, as the
// downward API writes it into a file. A pod without the annotation has an empty one, which requires nothing.
func ParseFloor(content []byte) (int64, error) {
	text := strings.TrimSpace(string(content))
	if text == "" {
		return 0, nil
	}
	floor, err := strconv.ParseInt(text, 10, 64)
	if err != nil || floor < 0 {
		return 0, fmt.Errorf("read version %q: not a number from 0", text)
	}
	return floor, nil
}
