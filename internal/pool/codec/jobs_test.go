package codec

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// jobsNamed returns jobs of weight 1.
func jobsNamed(names ...string) []assign.Job {
	var jobs []assign.Job
	for _, name := range names {
		jobs = append(jobs, assign.Job{Name: name, Weight: 1})
	}
	return jobs
}

func TestFromSpec(t *testing.T) {
	got := FromSpec([]v1alpha1.Job{{Name: "a"}, {Name: "b", Weight: 7, QoS: v1alpha1.JobShared}, {Name: "c", QoS: v1alpha1.JobDedicated}})
	want := []assign.Job{{Name: "a", Weight: 1}, {Name: "b", Weight: 7}, {Name: "c", Weight: 1, Dedicated: true}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseJobs(t *testing.T) {
	for _, c := range []struct {
		reason string
		text   string
		jobs   []assign.Job
	}{
		{"nothing is no jobs", "", nil},
		{"only comments are no jobs", "# soon\n\n", nil},
		{"one job per line", "stream:a\nstream:b:new\n", jobsNamed("stream:a", "stream:b:new")},
		{"empty lines, comments, spaces and Windows count for nothing", "\n# cameras\n  a b \r\n\tc\r\n", jobsNamed("a b", "c")},
		{"the last line needs no end", "a\nb", jobsNamed("a", "b")},
		{"a colon at the end of a later line is part of the name", "a\nb:\n", jobsNamed("a", "b:")},
		{"some editors begin with a mark", "\ufeffjobs: [a]", jobsNamed("a")},
		{"some editors begin lines with a mark", "\ufeffa\nb\n", jobsNamed("a", "b")},
		{"a document", "jobs:\n- stream:a\n- stream:b\n", jobsNamed("stream:a", "stream:b")},
		{"a document behind a comment", "# cameras\njobs: [a]\n", jobsNamed("a")},
		{"a document with a beginning and an end", "---\njobs: [a]\n...\n", jobsNamed("a")},
		{"JSON is YAML", `{"jobs": ["a", {"name": "b", "weight": 2}]}`, []assign.Job{{Name: "a", Weight: 1}, {Name: "b", Weight: 2}}},
		{"a bare list", "- a\n- b\n", jobsNamed("a", "b")},
		{"a list of lists' ends", "[a, b]", jobsNamed("a", "b")},
		{"other keys are ignored", "version: 4\njobs: [a]\nworkers: 3\n", jobsNamed("a")},
		{"weight and class", "jobs:\n- {name: a, weight: 1000000, qos: Dedicated}\n- {name: b, qos: Shared}\n",
			[]assign.Job{{Name: "a", Weight: 1_000_000, Dedicated: true}, {Name: "b", Weight: 1}}},
		{"numbers and words are names as they are written", "jobs: [007, 1.50, true, 2026-01-01]",
			jobsNamed("007", "1.50", "true", "2026-01-01")},
		{"the words for nothing are names in quotes", `jobs: ["null", "~"]`, jobsNamed("null", "~")},
		{"an empty list", "jobs: []\n", nil},
		{"no list yet", "jobs:\n", nil},
		{"a document of nothing", "---\n", nil},
		{"as many characters as the schema allows, not bytes", strings.Repeat("é", 253), jobsNamed(strings.Repeat("é", 253))},
		{"who has a name twice is for the engine to say", "a\na\n", jobsNamed("a", "a")},
	} {
		t.Run(c.reason, func(t *testing.T) {
			jobs, err := ParseJobs(c.text)
			if err != nil || !slices.Equal(jobs, c.jobs) {
				t.Errorf("got %v, %v, want %v", jobs, err, c.jobs)
			}
		})
	}
}

func TestParseJobsErrors(t *testing.T) {
	for _, c := range []struct {
		reason string
		text   string
		err    string
	}{
		{"not a text", "a\n\xff\n", "line 2: not UTF-8 text"},
		{"a control character in a line", "a\nb\x00c\n", "line 2: character U+0000 is not part of a text"},
		{"a control character in a document", "jobs:\n- a\n- b\x7f\n", "line 3: character U+007F is not part of a text"},
		{"an invisible mark in the middle", "a\nb\ufeff\n", "line 2: character U+FEFF is not part of a text"},
		{"a carriage return inside of a name", "a\rb\nc\n", `line 1: job "a\rb" has control characters in its name`},
		{"too long", strings.Repeat("x", 254), "line 1: a job's name is 254 characters long, and 253 is the most"},
		{"no YAML", "jobs:\n- [a\n", "did not find expected ',' or ']'"},
		{"no list", "workers: 3\n", "line 1: there is no list under jobs"},
		{"a text for a list", "jobs: a\n", "line 1: jobs is not a list"},
		{"a text alone", "{\"a\"}", "line 1: there is no list under jobs"},
		{"two lists, one of which would be lost", "jobs: [a]\njobs: [b]\n", `line 2: mapping key "jobs" already defined at line 1`},
		{"two documents, one of which would be lost", "jobs: [a]\n---\njobs: [b]\n", "line 2: a second document: a list is only one"},
		{"a second document that is none", "jobs: [a]\n---\n[b\n", "did not find expected ',' or ']'"},
		{"a list for a job", "jobs:\n- a\n- [b]\n", "line 3: a job is a name, or {name, weight, qos}"},
		{"an alias for a job", "jobs:\n- &x a\n- *x\n", "line 3: a job is a name, or {name, weight, qos}"},
		{"nothing for a job", "jobs:\n- a\n-\n", "line 3: a job without a name"},
		{"the word for nothing", "jobs:\n- null\n", "line 2: a job without a name"},
		{"no name", "jobs:\n- {weight: 2}\n", "line 2: a job without a name"},
		{"a name that is a list", "jobs:\n- {name: [a]}\n", "line 2: name is not a text"},
		{"a name that is nothing", "jobs:\n- {name: ~}\n", "line 2: a job without a name"},
		{"spaces around a name", "jobs: [' a']\n", `line 1: job " a" has spaces around its name`},
		{"a tab in a name", "jobs: [\"a\\tb\"]\n", `line 1: job "a\tb" has control characters in its name`},
		{"weight zero", "jobs: [{name: a, weight: 0}]\n", "line 1: weight 0 is not a whole number from 1 to 1000000"},
		{"a heavy job", "jobs: [{name: a, weight: 1000001}]\n", "line 1: weight 1000001 is not a whole number from 1 to 1000000"},
		{"a weight beyond numbers", "jobs: [{name: a, weight: 99999999999}]\n", "line 1: weight 99999999999 is not a whole number"},
		{"half a weight is not cut", "jobs: [{name: a, weight: 1.5}]\n", "line 1: weight 1.5 is not a whole number"},
		{"a weight in words", "jobs: [{name: a, weight: much}]\n", "line 1: weight much is not a whole number"},
		{"a weight of nothing", "jobs: [{name: a, weight: ~}]\n", "line 1: weight ~ is not a whole number"},
		{"another class", "jobs: [{name: a, qos: dedicated}]\n", `line 1: qos "dedicated" is neither Shared nor Dedicated`},
		{"a field that there is not", "jobs: [{name: a, wieght: 2}]\n", `line 1: a job has no field "wieght", only name, weight and qos`},
		{"a field twice", "jobs: [{name: a, name: b}]\n", `line 1: mapping key "name" already defined at line 1`},
	} {
		t.Run(c.reason, func(t *testing.T) {
			jobs, err := ParseJobs(c.text)
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want %q", err, c.err)
			}
			if jobs != nil {
				t.Errorf("refused, and yet there are %v", jobs)
			}
		})
	}
}

// drawName draws names that a list of lines can contain.
func drawName() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("aZ09:/#-_.é世👍 {}[]'\"*&!%@")), 1, 40, -1).Filter(func(name string) bool {
		return nameProblem(name) == "" && !strings.HasPrefix(name, "#")
	})
}

// Lines are read literally, however YAML would read them.
func TestAnyLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := append([]string{"first"}, rapid.SliceOf(drawName()).Draw(t, "names")...)
		jobs, err := ParseJobs(strings.Join(list, "\n"))
		if err != nil || !slices.Equal(jobs, jobsNamed(list...)) {
			t.Fatalf("got %v, %v", jobs, err)
		}
	})
}

// A quoted name is the same name, so that every list can also be a document.
func TestAnyDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(drawName()).Draw(t, "names")
		var text strings.Builder
		text.WriteString("jobs:\n")
		for _, name := range list {
			text.WriteString("- " + quoteScalar(name) + "\n")
		}
		jobs, err := ParseJobs(text.String())
		if err != nil || !slices.Equal(jobs, jobsNamed(list...)) {
			t.Fatalf("got %v, %v of\n%s", jobs, err, text.String())
		}
	})
}

// FuzzParseJobs reads arbitrary text: accepted jobs are within the limits, and refused text gives none.
func FuzzParseJobs(f *testing.F) {
	for _, seed := range []string{"a\nb:c\n", "jobs: [a, {name: b, weight: 2, qos: Dedicated}]", "- a\n- &x b\n- *x\n", "---\njobs:\n...\n",
		"{\"jobs\": [1.5]}", "\ufeff# a\n%YAML 1.2\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := ParseJobs(text)
		if err != nil {
			if jobs != nil || err.Error() == "" {
				t.Fatalf("refused by halves: %v, %v", jobs, err)
			}
			return
		}
		for _, job := range jobs {
			if nameProblem(job.Name) != "" || job.Weight < 1 || job.Weight > maxWeight {
				t.Fatalf("accepted %+v", job)
			}
		}
	})
}
