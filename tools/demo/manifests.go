package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// A demoManifests is what the demo puts into the cluster: the example, as it stands in the repository.
type demoManifests struct {
	swarm *unstructured.Unstructured
	tasks []*unstructured.Unstructured // in the order in which they are shown
}

// readManifests reads the example in a folder. The image is ours, or the one that was named.
func readManifests(folder, image string) (demoManifests, error) {
	swarms, err := objects(filepath.Join(folder, "swarm.yaml"))
	if err != nil {
		return demoManifests{}, err
	}
	tasks, err := objects(filepath.Join(folder, "tasks.yaml"))
	if err != nil {
		return demoManifests{}, err
	}
	if len(swarms) != 1 || len(tasks) == 0 {
		return demoManifests{}, fmt.Errorf("read example %q: it has %d swarms and %d tasks", folder, len(swarms), len(tasks))
	}
	return demoManifests{swarm: swarms[0], tasks: tasks}, setImage(swarms[0], image)
}

func objects(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read example: %w", err)
	}
	var result []*unstructured.Unstructured
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("read example %q: %w", file, err)
		}
		object.SetNamespace(namespace)
		result = append(result, object)
	}
	return result, nil
}

// setImage gives every agent the image.
func setImage(swarm *unstructured.Unstructured, image string) error {
	kinds, _, err := unstructured.NestedSlice(swarm.Object, "spec", "agents")
	if err != nil {
		return fmt.Errorf("read agents of the example: %w", err)
	}
	for _, kind := range kinds {
		fields, known := kind.(map[string]any)
		if !known {
			return errors.New("read agents of the example: one is no object")
		}
		containers, _, _ := unstructured.NestedSlice(fields, "template", "spec", "containers")
		if len(containers) == 0 {
			return errors.New("read agents of the example: one has no container")
		}
		if err := unstructured.SetNestedField(containers[0].(map[string]any), image, "image"); err != nil {
			return fmt.Errorf("set image of agents: %w", err)
		}
		if err := unstructured.SetNestedSlice(fields, containers, "template", "spec", "containers"); err != nil {
			return fmt.Errorf("set image of agents: %w", err)
		}
	}
	return unstructured.SetNestedSlice(swarm.Object, kinds, "spec", "agents")
}
