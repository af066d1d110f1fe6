package roster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is the file that workers mount.
type File struct {
	Version int64 // of the file
	Workers []Entry
}

// Entry is one worker's part of the file, in the file's order.
type Entry struct {
	Worker  string
	Version int64 // file version in which its list last changed
	Jobs    []string
}

// plain matches names that YAML reads as strings without quotes.
var plain = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_./@+:-]*[A-Za-z0-9_./@+-])?$`)

// words matches plain names that YAML reads as other types.
var words = regexp.MustCompile(`(?i)^(y|n|yes|no|true|false|on|off|null)$`)

// String returns the file. It contains only workers of the pool, in the given order.
func (f File) String() string {
	var to bytes.Buffer
	fmt.Fprintf(&to, "version: %d\nworkloads:", f.Version)
	if len(f.Workers) == 0 {
		to.WriteString(" {}\n")
		return to.String()
	}
	to.WriteByte('\n')
	for _, worker := range f.Workers {
		to.WriteString("  " + quoted(worker.Worker) + ":\n    jobs:")
		if len(worker.Jobs) == 0 {
			to.WriteString(" []")
		}
		to.WriteByte('\n')
		for _, job := range worker.Jobs {
			to.WriteString("      - " + quoted(job) + "\n")
		}
		to.WriteString("    version: " + strconv.FormatInt(worker.Version, 10) + "\n")
	}
	return to.String()
}

func quoted(text string) string {
	if plain.MatchString(text) && !words.MatchString(text) {
		return text
	}
	var to strings.Builder
	encoder := json.NewEncoder(&to) // every JSON string is a YAML string
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // never fails
	return escaped(strings.TrimSuffix(to.String(), "\n"))
}

// escaped escapes characters that JSON permits and YAML does not.
func escaped(text string) string {
	if !strings.ContainsFunc(text, foreign) {
		return text
	}
	var to strings.Builder
	for _, r := range text {
		if foreign(r) {
			fmt.Fprintf(&to, "\\u%04x", r)
			continue
		}
		to.WriteRune(r)
	}
	return to.String()
}

// Floor returns the version that a new pod of a worker must see before it starts any job: that of its list, or of the file if the worker
// has no list there, since an earlier file may have one.
func (f File) Floor(worker string) int64 {
	for _, entry := range f.Workers {
		if entry.Worker == worker {
			return entry.Version
		}
	}
	return f.Version
}

// ReadFile reads the output of String. An empty text is an empty file.
func ReadFile(text string) (File, error) {
	file, err := read(text)
	if err != nil {
		return File{}, fmt.Errorf("read the workers' file: %w", err)
	}
	return file, nil
}

func read(text string) (File, error) {
	var raw struct {
		Version   int64     `yaml:"version"`
		Workloads yaml.Node `yaml:"workloads"`
	}
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return File{}, inWords(err)
	}
	file, node := File{Version: raw.Version}, raw.Workloads
	if !node.IsZero() && node.Kind != yaml.MappingNode && node.ShortTag() != "!!null" {
		return File{}, fmt.Errorf("line %d: workloads is not a map of workers", node.Line)
	}
	listed := make(map[string]bool, len(node.Content)/2)
	for n := 0; n < len(node.Content); n += 2 {
		name := node.Content[n].Value
		if listed[name] {
			return File{}, fmt.Errorf("line %d: worker %q is there twice", node.Content[n].Line, name)
		}
		listed[name] = true
		entry, err := readEntry(name, node.Content[n+1])
		if err != nil {
			return File{}, inWords(err)
		}
		file.Workers = append(file.Workers, entry)
	}
	return file, nil
}

func readEntry(worker string, node *yaml.Node) (Entry, error) {
	var part struct {
		Jobs    []string `yaml:"jobs"`
		Version int64    `yaml:"version"`
	}
	err := node.Decode(&part)
	return Entry{Worker: worker, Version: part.Version, Jobs: part.Jobs}, err
}
