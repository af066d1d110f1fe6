package codec

import (
	"encoding/json"
	"fmt"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// Revision is a stored plan: the workers of all jobs, and what is needed to compute it again.
type Revision struct {
	Strategy   string           `json:"strategy,omitempty"`
	Algorithm  int              `json:"algorithm,omitempty"` // of strategy Hashed
	Version    int64            `json:"version"`             // of the file, if nothing else is published first
	Workers    []RevisionShare  `json:"workers"`
	Unassigned []string         `json:"unassigned,omitempty"`
	Weights    map[string]int32 `json:"weights,omitempty"` // of jobs with a weight above 1
	Dedicated  []string         `json:"dedicated,omitempty"`
}

// RevisionShare is the planned list of one worker.
type RevisionShare struct {
	Worker  string   `json:"name"`
	Ordinal int      `json:"ordinal"`
	Version int64    `json:"version"` // of its list, if nothing else is published first
	Jobs    []string `json:"jobs"`
}

// compressedRevision holds a text that is too long to be stored directly.
type compressedRevision struct {
	Packed string `json:"packed"`
}

// Encode returns the revision as JSON, compressed if it is long. It refuses text that could not be read again.
func (r Revision) Encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode revision: %w", err)
	}
	switch {
	case len(text) <= compressAbove:
		return text, nil
	case len(text) > maxRevisionSize:
		return nil, fmt.Errorf("encode revision: %d bytes, and %d are the most", len(text), maxRevisionSize)
	}
	return json.Marshal(compressedRevision{compress(string(text))})
}

// DecodeRevision reads the output of Encode.
func DecodeRevision(text []byte) (Revision, error) {
	raw, err := DecompressRevision(text)
	if err != nil {
		return Revision{}, err
	}
	return UnmarshalRevision(raw)
}

// DecompressRevision is the first half of DecodeRevision. It gives the length of the revision, which takes several times as much in memory.
func DecompressRevision(text []byte) ([]byte, error) {
	var wrapper compressedRevision
	if err := json.Unmarshal(text, &wrapper); err != nil {
		return nil, fmt.Errorf("read revision: %w", err)
	}
	if wrapper.Packed == "" {
		return text, nil
	}
	raw, err := decompress(wrapper.Packed, maxRevisionSize)
	if err != nil {
		return nil, fmt.Errorf("read revision: %w", err)
	}
	return []byte(raw), nil
}

// UnmarshalRevision is the second half of DecodeRevision.
func UnmarshalRevision(raw []byte) (Revision, error) {
	var revision Revision
	if err := json.Unmarshal(raw, &revision); err != nil {
		return Revision{}, fmt.Errorf("read revision: %w", err)
	}
	return revision, nil
}

// Shares returns the shares for the engine.
func (r Revision) Shares() []assign.Share {
	shares := make([]assign.Share, len(r.Workers))
	for n, share := range r.Workers {
		shares[n] = assign.Share{Worker: share.Worker, Ordinal: share.Ordinal, Jobs: share.Jobs}
	}
	return shares
}

// ParseJobs returns the jobs of the revision by worker, followed by unassigned ones.
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

// SetJobAttributes records which jobs are weighted or dedicated.
func (r *Revision) SetJobAttributes(jobs []assign.Job) {
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
