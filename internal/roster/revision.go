package roster

import (
	"encoding/json"
	"fmt"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// Revision is a stored plan: the workers of all jobs, and what is needed to compute it again.
type Revision struct {
	Strategy   string           `json:"strategy,omitempty"`
	Algorithm  int              `json:"algorithm,omitempty"` // of strategy Hashed
	Version    int64            `json:"version"`             // of the file, if nothing else is published first
	Workers    []Share          `json:"workers"`
	Unassigned []string         `json:"unassigned,omitempty"`
	Weights    map[string]int32 `json:"weights,omitempty"` // of jobs with a weight above 1
	Dedicated  []string         `json:"dedicated,omitempty"`
}

// Share is the planned list of one worker.
type Share struct {
	Worker  string   `json:"name"`
	Ordinal int      `json:"ordinal"`
	Version int64    `json:"version"` // of its list, if nothing else is published first
	Jobs    []string `json:"jobs"`
}

// packed holds a text that is too long to be stored directly.
type packed struct {
	Packed string `json:"packed"`
}

// Encode returns the revision as JSON, compressed if it is long. It refuses text that could not be read again.
func (r Revision) Encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode revision: %w", err)
	}
	switch {
	case len(text) <= long:
		return text, nil
	case len(text) > mostRevision:
		return nil, fmt.Errorf("encode revision: %d bytes, and %d are the most", len(text), mostRevision)
	}
	return json.Marshal(packed{pack(string(text))})
}

// ReadRevision reads the output of Encode.
func ReadRevision(text []byte) (Revision, error) {
	unpacked, err := UnpackRevision(text)
	if err != nil {
		return Revision{}, err
	}
	return ParseRevision(unpacked)
}

// UnpackRevision is the first half of ReadRevision. It gives the length of the revision, which takes several times as much in memory.
func UnpackRevision(text []byte) ([]byte, error) {
	var from packed
	if err := json.Unmarshal(text, &from); err != nil {
		return nil, fmt.Errorf("read revision: %w", err)
	}
	if from.Packed == "" {
		return text, nil
	}
	unpacked, err := unpack(from.Packed, mostRevision)
	if err != nil {
		return nil, fmt.Errorf("read revision: %w", err)
	}
	return []byte(unpacked), nil
}

// ParseRevision is the second half of ReadRevision.
func ParseRevision(unpacked []byte) (Revision, error) {
	var read Revision
	if err := json.Unmarshal(unpacked, &read); err != nil {
		return Revision{}, fmt.Errorf("read revision: %w", err)
	}
	return read, nil
}

// Shares returns the shares for the engine.
func (r Revision) Shares() []assign.Share {
	shares := make([]assign.Share, len(r.Workers))
	for n, from := range r.Workers {
		shares[n] = assign.Share{Worker: from.Worker, Ordinal: from.Ordinal, Jobs: from.Jobs}
	}
	return shares
}

// Jobs returns the jobs of the revision by worker, followed by unassigned ones.
func (r Revision) Jobs() []assign.Job {
	dedicated := make(map[string]bool, len(r.Dedicated))
	for _, name := range r.Dedicated {
		dedicated[name] = true
	}
	var jobs []assign.Job
	add := func(names []string) {
		for _, name := range names {
			jobs = append(jobs, assign.Job{Name: name, Weight: max(1, r.Weights[name]), Dedicated: dedicated[name]})
		}
	}
	for _, share := range r.Workers {
		add(share.Jobs)
	}
	add(r.Unassigned)
	return jobs
}

// Describe records which jobs are weighted or dedicated.
func (r *Revision) Describe(jobs []assign.Job) {
	for _, job := range jobs {
		if job.Weight > 1 {
			if r.Weights == nil {
				r.Weights = map[string]int32{}
			}
			r.Weights[job.Name] = job.Weight
		}
		if job.Dedicated {
			r.Dedicated = append(r.Dedicated, job.Name)
		}
	}
}
