package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// decodeDocuments are the objects of a file.
func decodeDocuments[T any](t *testing.T, file string) []T {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []T
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var object T
		if err := yaml.UnmarshalStrict(document, &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, object)
	}
	return objects
}

func decodeSwarm(t *testing.T) v1alpha1.Swarm {
	t.Helper()
	return decodeDocuments[v1alpha1.Swarm](t, "swarm.yaml")[0]
}

func TestAgentsRunThisProgram(t *testing.T) {
	for _, kind := range decodeSwarm(t).Spec.Agents {
		command := kind.Runtime.Exec.Command
		if _, err := parseMethod(command[1:]); err != nil || command[0] != "/swarm-research" {
			t.Errorf("%s runs %q: %v", kind.Type, command, err)
		}
		if image := kind.Template.Spec.Containers[0].Image; image != "localhost/swarm-research:dev" {
			t.Errorf("%s has image %s", kind.Type, image)
		}
	}
}

// A task that no agent can take, or whose payload is refused, would be a poor first impression.
func TestEveryTaskCanBeDone(t *testing.T) {
	swarm := decodeSwarm(t)
	for _, task := range decodeDocuments[v1alpha1.Task](t, "tasks.yaml") {
		if _, err := parsePayload(bytes.NewReader(task.Spec.Payload.Raw)); err != nil {
			t.Errorf("%s: %v", task.Name, err)
		}
		if task.Spec.SwarmRef.Name != swarm.Name || !slices.ContainsFunc(swarm.Spec.Agents,
			func(kind v1alpha1.AgentType) bool { return canRun(kind, task) }) {
			t.Errorf("%s: no agent can take it", task.Name)
		}
	}
}

func canRun(kind v1alpha1.AgentType, task v1alpha1.Task) bool {
	missing := func(need string) bool { return !slices.Contains(kind.Capabilities, need) }
	return (task.Spec.AgentType == "" || task.Spec.AgentType == kind.Type) && !slices.ContainsFunc(task.Spec.Capabilities, missing)
}

func TestTasksCoverAllPriorities(t *testing.T) {
	counts := map[string]int{}
	for _, task := range decodeDocuments[v1alpha1.Task](t, "tasks.yaml") {
		counts[string(task.Spec.Priority)]++
		if strings.Contains(string(task.Spec.Payload.Raw), "flaky") {
			counts["flaky"]++
		}
	}
	for _, what := range []string{"critical", "high", "medium", "low", "flaky"} {
		if counts[what] == 0 {
			t.Errorf("no task is %s", what)
		}
	}
	if counts["flaky"] != 1 {
		t.Errorf("%d tasks are flaky", counts["flaky"])
	}
}
