package plan

// AckTarget is a question to one worker: has it loaded this version of its list?
type AckTarget struct {
	Worker  string
	URL     string
	PodUID  string // of its pod
	Version int64  // the expected version
}

// AckResponse is a worker's response.
type AckResponse struct {
	Worker      string `json:"worker"`
	PodUID      string `json:"podUID"`
	Version     int64  `json:"version"` // of its own list
	FileVersion int64  `json:"config"`  // of the file
}

// Satisfies reports whether nothing more has to be asked. An answer with a list newer than its file is invalid.
func (r AckResponse) Satisfies(target AckTarget) bool {
	return r.Worker == target.Worker && r.PodUID == target.PodUID && r.Version == target.Version && r.FileVersion >= r.Version
}
