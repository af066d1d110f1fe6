package roster

import (
	"encoding/json"
	"fmt"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// Revision is a plan as it is kept: who shall have which job, and what is needed to make it again.
type Revision struct {
	Strategy   string           `json:"strategy,omitempty"`
	Algorithm  int              `json:"algorithm,omitempty"` // of strategy Hashed
	Version    int64            `json:"version"`             // of the file, when nothing comes between
	Workers    []Share          `json:"workers"`
	Unassigned []string         `json:"unassigned,omitempty"`
	Weights    map[string]int32 `json:"weights,omitempty"` // of jobs that weigh more than 1
	Dedicated  []string         `json:"dedicated,omitempty"`
}

// Share is what one worker shall have.
type Share struct {
	Worker  string   `json:"name"`
	Ordinal int      `json:"ordinal"`
	Version int64    `json:"version"` // of its list, when nothing comes between
	Jobs    []string `json:"jobs"`
}

// packed is a text that is too long to be stored as it is.
type packed struct {
	Packed string `json:"packed"`
}

// Encode is the revision as JSON, packed when it is long. It refuses what could not be read again.
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

// ReadRevision reads what Encode has made.
func ReadRevision(text []byte) (Revision, error) {
	unpacked, err := UnpackRevision(text)
	if err != nil {
		return Revision{}, err
	}
	return ParseRevision(unpacked)
}

// UnpackRevision is the first half of ReadRevision, after which it is known how long the revision is: in memory it takes several times as much.
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

// ParseRevision is the second half.
func ParseRevision(unpacked []byte) (Revision, error) {
	var read Revision
	if err := json.Unmarshal(unpacked, &read); err != nil {
		return Revision{}, fmt.Errorf("read revision: %w", err)
	}
	return read, nil
}

// Shares are those of the engine.
func (r Revision) Shares() []assign.Share {
	shares := make([]assign.Share, len(r.Workers))
	for n, from := range r.Workers {
		shares[n] = assign.Share{Worker: from.Worker, Ordinal: from.Ordinal, Jobs: from.Jobs}
	}
	return shares
}

// Jobs are those of the revision, worker by worker, and then those that nobody had.
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

// Describe notes what is special about jobs.
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
