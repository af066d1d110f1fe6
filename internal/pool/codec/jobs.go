// Package codec reads and writes the input and output of a pool: lists of jobs, the file that workers mount, and the stored revisions.
//
// It promises that the same roster always gives the same bytes, that it can read what it writes, and that input is accepted or refused as
// a whole, with the line of the problem. It never accesses the cluster.
package codec

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// The limits of a job, as in the schema of WorkerPool.
const (
	maxNameLength = 253
	maxWeight     = 1_000_000
)

// documentStart matches the beginning of a YAML document, as opposed to a line with a job, in which text follows a colon directly.
var documentStart = regexp.MustCompile(`^(---|%|\{|\[|- |-$|["']?\w+["']?:(\s|$))`)

// byteOrderMark is written by some editors at the beginning of a file.
const byteOrderMark = "\ufeff"

// FromSpec returns the jobs in a WorkerPool's spec, which the API server has validated.
func FromSpec(jobs []v1alpha1.Job) []assign.Job {
	list := make([]assign.Job, len(jobs))
	for n, job := range jobs {
		list[n] = assign.Job{Name: job.Name, Weight: max(1, job.Weight), Dedicated: job.QoS == v1alpha1.JobDedicated}
	}
	return list
}

// ParseJobs reads a list: a YAML document with the list under jobs, each entry a name or {name, weight, qos}, or one job per line, where
// empty lines and lines that begin with # are ignored. It returns no jobs with an error. The error names the line.
func ParseJobs(text string) ([]assign.Job, error) {
	text = strings.TrimPrefix(text, byteOrderMark)
	if err := checkText(text); err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			if documentStart.MatchString(line) {
				return parseDocument(text)
			}
			break
		}
	}
	return parseLines(text)
}

// checkText reports where a list is not valid text. Parsers report only that it is not.
func checkText(text string) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if !utf8.ValidString(line) {
			return fmt.Errorf("line %d: not UTF-8 text", number)
		}
		if at := strings.IndexFunc(line, isIllegalRune); at >= 0 {
			illegal, _ := utf8.DecodeRuneInString(line[at:])
			return fmt.Errorf("line %d: character %U is not part of a text", number, illegal)
		}
	}
	return nil
}

// isIllegalRune reports characters that YAML text cannot contain unescaped, or reads as line breaks.
func isIllegalRune(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return unicode.IsControl(r) || r == '\ufeff' || r == '\ufffe' || r == '\uffff'
}

func parseLines(text string) (jobs []assign.Job, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if problem := nameProblem(name); problem != "" {
			return nil, fmt.Errorf("line %d: %s", number, problem)
		}
		jobs = append(jobs, assign.Job{Name: name, Weight: 1})
	}
	return jobs, nil
}

// nameProblem returns what is wrong with a name, or "".
func nameProblem(name string) string {
	switch {
	case name == "":
		return "a job without a name"
	case utf8.RuneCountInString(name) > maxNameLength:
		return fmt.Sprintf("a job's name is %d characters long, and %d is the most", utf8.RuneCountInString(name), maxNameLength)
	case strings.TrimSpace(name) != name:
		return fmt.Sprintf("job %q has spaces around its name", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Sprintf("job %q has control characters in its name", name)
	}
	return ""
}
