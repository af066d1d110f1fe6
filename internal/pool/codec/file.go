package codec

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
	Workers []FileEntry
}

// FileEntry is one worker's part of the file, in the file's order.
type FileEntry struct {
	Worker  string
	Version int64 // file version in which its list last changed
	Jobs    []string
}

// plainScalar matches names that YAML reads as strings without quotes.
var plainScalar = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_./@+:-]*[A-Za-z0-9_./@+-])?$`)

// reservedWord matches plain names that YAML reads as other types.
var reservedWord = regexp.MustCompile(`(?i)^(y|n|yes|no|true|false|on|off|null)$`)

// String returns the file. It contains only workers of the pool, in the given order.
func (f File) String() string {
	var out bytes.Buffer
	fmt.Fprintf(&out, "version: %d\nworkloads:", f.Version)
	if len(f.Workers) == 0 {
		out.WriteString(" {}\n")
		return out.String()
	}
	out.WriteByte('\n')
	for _, worker := range f.Workers {
		out.WriteString("  " + quoteScalar(worker.Worker) + ":\n    jobs:")
		if len(worker.Jobs) == 0 {
			out.WriteString(" []")
		}
		out.WriteByte('\n')
		for _, job := range worker.Jobs {
			out.WriteString("      - " + quoteScalar(job) + "\n")
		}
		out.WriteString("    version: " + strconv.FormatInt(worker.Version, 10) + "\n")
	}
	return out.String()
}

func quoteScalar(text string) string {
	if plainScalar.MatchString(text) && !reservedWord.MatchString(text) {
		return text
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out) // every JSON string is a YAML string
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // never fails
	return escapeRunes(strings.TrimSuffix(out.String(), "\n"))
}

// escapeRunes escapes characters that JSON permits and YAML does not.
func escapeRunes(text string) string {
	if !strings.ContainsFunc(text, isIllegalRune) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if isIllegalRune(r) {
			fmt.Fprintf(&out, "\\u%04x", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
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

// ParseFile reads the output of String. An empty text is an empty file.
func ParseFile(text string) (File, error) {
	file, err := parseFile(text)
	if err != nil {
		return File{}, fmt.Errorf("read the workers' file: %w", err)
	}
	return file, nil
}

func parseFile(text string) (File, error) {
	var raw struct {
		Version   int64     `yaml:"version"`
		Workloads yaml.Node `yaml:"workloads"`
	}
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return File{}, yamlProblem(err)
	}
	file, node := File{Version: raw.Version}, raw.Workloads
	if !node.IsZero() && node.Kind != yaml.MappingNode && node.ShortTag() != "!!null" {
		return File{}, fmt.Errorf("line %d: workloads is not a map of workers", node.Line)
	}
	seen := make(map[string]bool, len(node.Content)/2)
	for n := 0; n < len(node.Content); n += 2 {
		name := node.Content[n].Value
		if seen[name] {
			return File{}, fmt.Errorf("line %d: worker %q is there twice", node.Content[n].Line, name)
		}
		seen[name] = true
		entry, err := parseEntry(name, node.Content[n+1])
		if err != nil {
			return File{}, yamlProblem(err)
		}
		file.Workers = append(file.Workers, entry)
	}
	return file, nil
}

func parseEntry(worker string, node *yaml.Node) (FileEntry, error) {
	var part struct {
		Jobs    []string `yaml:"jobs"`
		Version int64    `yaml:"version"`
	}
	err := node.Decode(&part)
	return FileEntry{Worker: worker, Version: part.Version, Jobs: part.Jobs}, err
}
