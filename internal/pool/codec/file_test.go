package codec

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

func readGolden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The basic example gives exactly the expected file.
func TestGolden27(t *testing.T) {
	jobs, err := ParseJobs(readGolden(t, "pool-27-jobs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	list, problems := assign.NewJobList(jobs)
	if list.Len() != 27 || len(problems) > 0 {
		t.Fatalf("%d jobs, %v", list.Len(), problems)
	}
	workers := []assign.Worker{{Name: "swarm-worker-0"}, {Name: "swarm-worker-1", Ordinal: 1}}
	file := File{Version: 1}
	for _, share := range assign.Plan(assign.Input{Jobs: list, Workers: workers}).Next.Shares() {
		file.Workers = append(file.Workers, FileEntry{Worker: share.Worker, Version: 1, Jobs: share.Jobs})
	}
	want := readGolden(t, "pool-27-expected.yml")
	if got := file.String(); got != want {
		t.Errorf("got\n%s", got)
	}
	read, err := ParseFile(want)
	if err != nil || !reflect.DeepEqual(read, file) {
		t.Errorf("read %v, %v", read, err)
	}
}

func TestFiles(t *testing.T) {
	for _, c := range []struct {
		reason string
		file   File
		text   string
	}{
		{"a pool without workers", File{Version: 4}, "version: 4\nworkloads: {}\n"},
		{"a worker without jobs", File{Version: 2, Workers: []FileEntry{{"w-0", 1, nil}}},
			"version: 2\nworkloads:\n  w-0:\n    jobs: []\n    version: 1\n"},
		{"what YAML takes for something else is in quotes",
			File{Workers: []FileEntry{{"0w", 0, []string{"no", "NULL", "5", "-x", "a: b", "a #b", "a:", "é", `"`}}}},
			"version: 0\nworkloads:\n  \"0w\":\n    jobs:\n      - \"no\"\n      - \"NULL\"\n      - \"5\"\n      - \"-x\"\n      - \"a: b\"\n      - \"a #b\"\n      - \"a:\"\n      - \"é\"\n      - \"\\\"\"\n    version: 0\n"},
		{"what YAML cannot hold is written out", File{Workers: []FileEntry{{"w", 0, []string{"a\x01b\x7fc\u0085d\ufeffe\u2028f<"}}}},
			"version: 0\nworkloads:\n  w:\n    jobs:\n      - \"a\\u0001b\\u007fc\\u0085d\\ufeffe\\u2028f<\"\n    version: 0\n"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := c.file.String(); got != c.text {
				t.Errorf("got\n%s\nwant\n%s", got, c.text)
			}
			if again := reformat(t, c.text); again != c.text {
				t.Errorf("read as\n%s", again)
			}
		})
	}
}

// reformat returns the text of a file after reading it, because the text has only one form for no jobs.
func reformat(t interface {
	Fatalf(format string, arguments ...any)
}, text string,
) string {
	file, err := ParseFile(text)
	if err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	return file.String()
}

func TestParseFile(t *testing.T) {
	for _, c := range []struct {
		reason string
		text   string
		want   string
	}{
		{"no file yet", "", "version: 0\nworkloads: {}\n"},
		{"no workers yet", "version: 3\nworkloads:\n", "version: 3\nworkloads: {}\n"},
		{"JSON", `{"version": 3, "workloads": {"w": {"jobs": ["a"], "version": 2}}}`,
			"version: 3\nworkloads:\n  w:\n    jobs:\n      - a\n    version: 2\n"},
		{"a worker of which nothing is said", "workloads: {w: }", "version: 0\nworkloads:\n  w:\n    jobs: []\n    version: 0\n"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := reformat(t, c.text); got != c.want {
				t.Errorf("got\n%s", got)
			}
		})
	}
	for _, c := range []struct {
		reason string
		text   string
		err    string
	}{
		{"no YAML", "version: [", "read the workers' file: line 1: did not find expected node content"},
		{"no map", "hello", "read the workers' file: line 1: cannot unmarshal"},
		{"a version in words", "version: new", "read the workers' file: line 1: cannot unmarshal"},
		{"a text for workers", "version: 1\nworkloads: w\n", "read the workers' file: line 2: workloads is not a map of workers"},
		{"a list of workers", "workloads: [w, {jobs: [a]}]", "read the workers' file: line 1: workloads is not a map of workers"},
		{"a worker twice, of whom one would lose its jobs", "workloads:\n  w: {jobs: [a]}\n  w: {jobs: [b]}\n",
			`read the workers' file: line 3: worker "w" is there twice`},
		{"a text for jobs", "workloads:\n  w: {jobs: a}\n", "read the workers' file: line 2: cannot unmarshal"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			file, err := ParseFile(c.text)
			if err == nil || !strings.HasPrefix(err.Error(), c.err) || strings.Contains(err.Error(), "\n") || !reflect.DeepEqual(file, File{}) {
				t.Errorf("got %v, %v, want %q", file, err, c.err)
			}
		})
	}
}

// drawFile draws any names, including names that the schema refuses.
func drawFile() *rapid.Generator[File] {
	name := rapid.StringN(1, 60, 253)
	return rapid.Custom(func(t *rapid.T) File {
		file := File{Version: rapid.Int64().Draw(t, "version")}
		for _, worker := range rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "workers") {
			file.Workers = append(file.Workers, FileEntry{worker, rapid.Int64().Draw(t, "own"), rapid.SliceOf(name).Draw(t, "jobs")})
		}
		return file
	})
}

func equalFiles(a, b File) bool { return fmt.Sprintf("%+q", a) == fmt.Sprintf("%+q", b) }

func TestFileRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := drawFile().Draw(t, "file")
		read, err := ParseFile(file.String())
		if err != nil || !equalFiles(read, file) {
			t.Fatalf("read %+q, %v of\n%s", read, err, file)
		}
	})
}

// FuzzFile writes any two names and reads them back.
func FuzzFile(f *testing.F) {
	f.Add("w-0", "stream:a", int64(1))
	f.Add("0", "no", int64(-1))
	f.Add("a:", "\u0085\x7f\ufeff\uffff", int64(0))
	f.Fuzz(func(t *testing.T, worker, job string, version int64) {
		if !utf8.ValidString(worker) || !utf8.ValidString(job) || len(worker) > 253 {
			return // refused by both the API server and ParseJobs
		}
		file := File{Version: version, Workers: []FileEntry{{worker, version, []string{job}}}}
		if read, err := ParseFile(file.String()); err != nil || !equalFiles(read, file) {
			t.Fatalf("read %+q, %v of\n%s", read, err, file)
		}
	})
}

// FuzzParseFile reads arbitrary text. Accepted text is read the same after it is written again.
func FuzzParseFile(f *testing.F) {
	f.Add("version: 1\nworkloads:\n  w-0:\n    jobs:\n      - a\n    version: 1\n")
	f.Add("workloads: {a: &x {jobs: [no]}, b: *x}")
	f.Add("workloads: {<<: {jobs: []}}")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseFile(text)
		if err != nil {
			return
		}
		if written := file.String(); reformat(t, written) != written {
			t.Fatalf("%q becomes %q becomes %q", text, written, reformat(t, written))
		}
	})
}
