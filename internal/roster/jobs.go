// Package roster reads and writes what goes into a pool and what comes out of it: lists of jobs, the file that workers mount, and the
// revisions that are kept.
//
// It promises that the same roster is always the same bytes, that what it writes it can read, and that whatever it refuses is refused
// whole, with the line to look at. It never reaches the cluster.
package roster

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
)

// The bounds of a job, as the schema of WorkerPool has them.
const (
	mostName   = 253
	mostWeight = 1_000_000
)

// document is how a YAML document begins, other than a job on a line of its own, in which a colon is followed by more.
var document = regexp.MustCompile(`^(---|%|\{|\[|- |-$|["']?\w+["']?:(\s|$))`)

// byteOrderMark is what some editors begin a file with.
const byteOrderMark = "\ufeff"

// Inline are the jobs of a WorkerPool's own spec, which the API server has checked.
func Inline(jobs []v1alpha1.Job) []assign.Job {
	list := make([]assign.Job, len(jobs))
	for n, job := range jobs {
		list[n] = assign.Job{Name: job.Name, Weight: max(1, job.Weight), Dedicated: job.QoS == v1alpha1.JobDedicated}
	}
	return list
}

// Jobs reads a list: a YAML document with the list under jobs, each a name or {name, weight, qos}, or one job per line, where empty
// lines and those that begin with # count for nothing. With an error, which names the line, there are no jobs.
func Jobs(text string) ([]assign.Job, error) {
	text = strings.TrimPrefix(text, byteOrderMark)
	if err := illegible(text); err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			if document.MatchString(line) {
				return fromDocument(text)
			}
			break
		}
	}
	return fromLines(text)
}

// illegible says where a list is no text: parsers say only that it is none.
func illegible(text string) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if !utf8.ValidString(line) {
			return fmt.Errorf("line %d: not UTF-8 text", number)
		}
		if at := strings.IndexFunc(line, foreign); at >= 0 {
			strange, _ := utf8.DecodeRuneInString(line[at:])
			return fmt.Errorf("line %d: character %U is not part of a text", number, strange)
		}
	}
	return nil
}

// foreign are the characters that a YAML text cannot hold as they are, and those that it takes for a line break.
func foreign(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return unicode.IsControl(r) || r == '\ufeff' || r == '\ufffe' || r == '\uffff'
}

func fromLines(text string) (jobs []assign.Job, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if wrong := misnamed(name); wrong != "" {
			return nil, fmt.Errorf("line %d: %s", number, wrong)
		}
		jobs = append(jobs, assign.Job{Name: name, Weight: 1})
	}
	return jobs, nil
}

// misnamed is what is wrong with a name, "" for nothing.
func misnamed(name string) string {
	switch {
	case name == "":
		return "a job without a name"
	case utf8.RuneCountInString(name) > mostName:
		return fmt.Sprintf("a job's name is %d characters long, and %d is the most", utf8.RuneCountInString(name), mostName)
	case strings.TrimSpace(name) != name:
		return fmt.Sprintf("job %q has spaces around its name", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Sprintf("job %q has control characters in its name", name)
	}
	return ""
}
