// Package jobfile reads the file that a pool publishes: the jobs of this worker, and their version.
//
// It promises that what it returns is complete: a file that is cut off, contains something twice or has no version is an error, never an
// empty list. Unknown keys are ignored, so that an older worker can read a newer file.
package jobfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// A JobList is the part of the file that concerns one worker.
type JobList struct {
	FileVersion int64    // of the file
	ListVersion int64    // of this worker's list; 0 when the file does not name the worker
	Jobs        []string // sorted, each once
}

// Equal reports whether the two lists have the same content.
func (r JobList) Equal(other JobList) bool {
	return r.FileVersion == other.FileVersion && r.ListVersion == other.ListVersion && slices.Equal(r.Jobs, other.Jobs)
}

// Contains reports whether the job is on the list.
func (r JobList) Contains(job string) bool {
	_, found := slices.BinarySearch(r.Jobs, job)
	return found
}

type document struct {
	Version   *int64                   `json:"version"`
	Workloads map[string]*workloadList `json:"workloads"`
}

type workloadList struct {
	Jobs    []string `json:"jobs"`
	Version int64    `json:"version"`
}

// Parse returns the list of one worker. A worker that the file does not name has no jobs.
func Parse(content []byte, worker string) (JobList, error) {
	jsonContent, err := yaml.YAMLToJSONStrict(content) // strict: refuses duplicate keys
	if err != nil {
		return JobList{}, fmt.Errorf("parse YAML: %w", err)
	}
	var doc document
	if err := json.Unmarshal(jsonContent, &doc); err != nil {
		return JobList{}, fmt.Errorf("read lists: %w", err)
	}
	if doc.Version == nil {
		return JobList{}, errors.New("read version: the file has none")
	}
	ownList := doc.Workloads[worker]
	if ownList == nil {
		ownList = &workloadList{}
	}
	if *doc.Version < 0 || ownList.Version < 0 {
		return JobList{}, fmt.Errorf("read version: %d of the file and %d of %s: one is negative", *doc.Version, ownList.Version, worker)
	}
	jobs := slices.Sorted(slices.Values(ownList.Jobs))
	if len(jobs) > 0 && jobs[0] == "" {
		return JobList{}, fmt.Errorf("read jobs of %s: one has no name", worker)
	}
	return JobList{FileVersion: *doc.Version, ListVersion: ownList.Version, Jobs: slices.Compact(jobs)}, nil
}

// ParseMinVersion parses the version that the file must have reached before anything starts: the pod's annotation, as the downward API
// writes it into a file. Without the annotation the file is empty and requires nothing.
func ParseMinVersion(content []byte) (int64, error) {
	text := strings.TrimSpace(string(content))
	if text == "" {
		return 0, nil
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 0 {
		return 0, fmt.Errorf("read version %q: not a number from 0", text)
	}
	return version, nil
}
