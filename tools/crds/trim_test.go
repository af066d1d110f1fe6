package main

import (
	"bytes"
	"strings"
	"testing"
)

const generated = `
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          description: {type: string, maxLength: 5, description: ours}
          size: {x-kubernetes-int-or-string: true, description: ours}
          agents:
            type: array
            maxItems: 3
            items:
              type: object
              properties:
                template:
                  type: object
                  description: ours
                  properties:
                    spec:
                      type: object
                      description: theirs
                      properties:
                        description: {type: string, maxLength: 9, description: theirs}
                        ephemeralContainers: {type: array, items: {type: object}}
                        ports: {type: array, description: theirs, items: {type: integer, minimum: 1}}
`

func TestFinishKeepsOursAndStripsTheirs(t *testing.T) {
	after, _, err := finish([]byte(generated))
	if err != nil {
		t.Fatal(err)
	}
	text := string(after)
	for _, gone := range []string{"theirs", "maxLength: 9", "minimum", "ephemeralContainers"} {
		if strings.Contains(text, gone) {
			t.Errorf("%q is still there:\n%s", gone, text)
		}
	}
	for _, kept := range []string{"maxLength: 5", "maxItems: 3", "maxLength: 32", "ports:"} {
		if !strings.Contains(text, kept) {
			t.Errorf("%q is gone:\n%s", kept, text)
		}
	}
	if ours := strings.Count(text, "description: ours"); ours != 3 {
		t.Errorf("%d descriptions of ours, want 3:\n%s", ours, text)
	}
}

func TestFinishTwiceChangesNothing(t *testing.T) {
	once, _, err := finish([]byte(generated))
	if err != nil {
		t.Fatal(err)
	}
	twice, _, err := finish(once)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(once, twice) {
		t.Errorf("the second run differs:\n%s\n%s", once, twice)
	}
}

func TestFinishRefusesWhatKubectlCannotApply(t *testing.T) {
	large := strings.Replace(generated, "description: ours", "description: "+strings.Repeat("x", maxBytes), 1)
	if _, _, err := finish([]byte(large)); err == nil || !strings.Contains(err.Error(), "client-side apply") {
		t.Errorf("got %v, want a sentence about client-side apply", err)
	}
}

func TestKustomizeFindsEveryFile(t *testing.T) {
	text := string(list([]string{"crds/a.yaml", "crds/b.yaml"}))
	if !strings.HasSuffix(text, "resources:\n- a.yaml\n- b.yaml\n") {
		t.Errorf("got %q", text)
	}
}
