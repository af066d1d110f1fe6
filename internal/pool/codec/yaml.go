package codec

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

func parseDocument(text string) ([]assign.Job, error) {
	root, err := parseSingleDocument(text)
	if root == nil || err != nil {
		return nil, err
	}
	list, err := findJobs(root)
	if list == nil || err != nil {
		return nil, err
	}
	jobs := make([]assign.Job, 0, len(list.Content))
	for _, node := range list.Content {
		job, err := parseJob(node)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", node.Line, err)
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// parseSingleDocument returns the content of the text, nil for none. It refuses duplicate keys and a second document: their jobs would
// never run.
func parseSingleDocument(text string) (*yaml.Node, error) {
	var first, second yaml.Node
	var values any
	decoder := yaml.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&first); err != nil {
		return nil, yamlProblem(err)
	}
	if err := first.Decode(&values); err != nil {
		return nil, yamlProblem(err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("line %d: a second document: a list is only one", second.Line)
	case !errors.Is(err, io.EOF):
		return nil, yamlProblem(err)
	}
	return first.Content[0], nil
}

// yamlProblem returns the first error of the parser, or nil at the end of the text.
func yamlProblem(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	if typeError, ok := errors.AsType[*yaml.TypeError](err); ok {
		return errors.New(typeError.Errors[0])
	}
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

// findJobs returns the list of a document, nil for an empty one.
func findJobs(node *yaml.Node) (*yaml.Node, error) {
	if node.Kind == yaml.MappingNode {
		at := -1
		for n := 0; n < len(node.Content); n += 2 {
			if node.Content[n].Value == "jobs" {
				at = n + 1
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("line %d: there is no list under jobs", node.Line)
		}
		node = node.Content[at]
	}
	switch {
	case node.Kind == yaml.SequenceNode:
		return node, nil
	case node.Tag == "!!null":
		return nil, nil
	}
	return nil, fmt.Errorf("line %d: jobs is not a list", node.Line)
}

func parseJob(node *yaml.Node) (assign.Job, error) {
	job := assign.Job{Weight: 1}
	switch node.Kind {
	case yaml.ScalarNode:
		job.Name = scalarText(node)
	case yaml.MappingNode:
		for n := 0; n < len(node.Content); n += 2 {
			if err := setField(&job, node.Content[n].Value, node.Content[n+1]); err != nil {
				return job, err
			}
		}
	default:
		return job, errors.New("a job is a name, or {name, weight, qos}")
	}
	if problem := nameProblem(job.Name); problem != "" {
		return job, errors.New(problem)
	}
	return job, nil
}

// scalarText returns a name as written, so that 007 stays 007. Null values are no names.
func scalarText(node *yaml.Node) string {
	if node.ShortTag() == "!!null" {
		return ""
	}
	return node.Value
}

// setField sets one field of a job in a document.
func setField(job *assign.Job, field string, value *yaml.Node) error {
	switch field {
	case "name":
		if value.Kind != yaml.ScalarNode {
			return errors.New("name is not a text")
		}
		job.Name = scalarText(value)
	case "weight":
		if err := value.Decode(&job.Weight); value.ShortTag() != "!!int" || err != nil || job.Weight < 1 || job.Weight > maxWeight {
			return fmt.Errorf("weight %s is not a whole number from 1 to %d", value.Value, maxWeight)
		}
	case "qos":
		if value.Value != string(v1alpha1.JobShared) && value.Value != string(v1alpha1.JobDedicated) {
			return fmt.Errorf("qos %q is neither Shared nor Dedicated", value.Value)
		}
		job.Dedicated = value.Value == string(v1alpha1.JobDedicated)
	default:
		return fmt.Errorf("a job has no field %q, only name, weight and qos", field)
	}
	return nil
}
