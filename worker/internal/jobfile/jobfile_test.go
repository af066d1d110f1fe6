package jobfile

import (
	"slices"
	"strings"
	"testing"
)

const worker = "swarm-worker-0"

func TestParse(t *testing.T) {
	for _, c := range []struct {
		reason, content string
		want            JobList
	}{
		{"the published shape",
			"version: 3\nworkloads:\n  swarm-worker-0:\n    jobs:\n      - stream:b:new\n      - stream:a\n    version: 2\n  swarm-worker-1:\n    jobs:\n      - stream:c\n    version: 3\n",
			JobList{3, 2, []string{"stream:a", "stream:b:new"}}},
		{"a placeholder", "version: 1\nworkloads: {}\n", JobList{1, 0, nil}},
		{"a placeholder without lists", "version: 0\n", JobList{0, 0, nil}},
		{"of another worker", "version: 4\nworkloads: {swarm-worker-00: {jobs: [a], version: 4}}", JobList{4, 0, nil}},
		{"an empty list", "version: 4\nworkloads: {swarm-worker-0: {jobs: [], version: 4}}", JobList{4, 4, nil}},
		{"no list", "version: 4\nworkloads: {swarm-worker-0: null}", JobList{4, 0, nil}},
		{"a job twice is one job", "version: 4\nworkloads: {swarm-worker-0: {jobs: [b, a, b], version: 4}}", JobList{4, 4, []string{"a", "b"}}},
		{"keys of a later operator", "version: 4\nsignature: x\nworkloads: {swarm-worker-0: {jobs: [a], version: 4, region: eu}}",
			JobList{4, 4, []string{"a"}}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got, err := Parse([]byte(c.content), worker)
			if err != nil || !got.Equal(c.want) {
				t.Errorf("got %+v (%v), want %+v", got, err, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for reason, c := range map[string]struct{ content, says string }{
		"nothing":             {"", "read version: the file has none"},
		"text":                {"hello", "read lists"},
		"no version":          {"workloads: {}", "read version: the file has none"},
		"a version of words":  {"version: three", "read lists"},
		"a negative version":  {"version: -1", "negative"},
		"broken YAML":         {"version: 3\nworkloads:\n  swarm-worker-0: [", "line"},
		"a worker twice":      {"version: 3\nworkloads:\n  swarm-worker-0: {jobs: [a]}\n  swarm-worker-0: {jobs: [b]}\n", "already"},
		"a job without name":  {"version: 3\nworkloads: {swarm-worker-0: {jobs: [a, \"\"]}}", "one has no name"},
		"a job that is a map": {"version: 3\nworkloads: {swarm-worker-0: {jobs: [{name: a}]}}", "read lists"},
	} {
		t.Run(reason, func(t *testing.T) {
			got, err := Parse([]byte(c.content), worker)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %+v, %v, want %q", got, err, c.says)
			}
		})
	}
}

func TestParseMinVersion(t *testing.T) {
	for content, want := range map[string]int64{"": 0, "\n": 0, "7": 7, "7\n": 7, "0": 0} {
		if got, err := ParseMinVersion([]byte(content)); err != nil || got != want {
			t.Errorf("%q: got %d, %v", content, got, err)
		}
	}
	for _, content := range []string{"x", "-1", "1.5", "7 8", "99999999999999999999"} {
		if got, err := ParseMinVersion([]byte(content)); err == nil {
			t.Errorf("%q: got %d", content, got)
		}
	}
}

// Whatever is in the file: no panic, and a list that keeps its promises.
func FuzzParse(f *testing.F) {
	f.Add([]byte("version: 3\nworkloads:\n  swarm-worker-0:\n    jobs:\n      - a\n    version: 3\n"))
	f.Add([]byte("{version: 1e3}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := Parse(content, worker)
		if err != nil {
			return
		}
		if got.FileVersion < 0 || got.ListVersion < 0 || slices.Contains(got.Jobs, "") || !slices.IsSorted(got.Jobs) {
			t.Errorf("got %+v", got)
		}
		for _, job := range got.Jobs {
			if !got.Contains(job) {
				t.Errorf("%q is not listed", job)
			}
		}
	})
}
