package main

import (
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A swarm is the state of ours in the cluster. The words are those of the API.
type swarm struct {
	Name       string      `json:"-"`
	Phase      string      `json:"phase"`
	Types      []agentType `json:"types"`
	Conditions []condition `json:"conditions"`
}

type agentType struct {
	Type    string `json:"type"`
	Desired int    `json:"desired"`
	Ready   int    `json:"ready"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// A task is one line of the show.
type task struct {
	Name     string          `json:"-"`
	Priority string          `json:"-"`
	Agent    string          `json:"-"` // the latest, also when it is done
	Phase    string          `json:"phase"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message"`
	Progress int             `json:"progress"`
	Attempt  int             `json:"attempt"`
	Result   json.RawMessage `json:"result"`
	Assigned []struct {
		Name string `json:"name"`
	} `json:"assignedAgents"`
}

// A demoState is everything that a frame shows.
type demoState struct {
	swarm           swarm
	tasks           []task
	elapsed         time.Duration
	connectionError string // why the cluster cannot be seen now
}

func swarmOf(object *unstructured.Unstructured) swarm {
	found := swarm{Name: object.GetName()}
	readStatus(object, &found)
	return found
}

// taskOf keeps the agent of an earlier look: a task that is done names none.
func taskOf(object *unstructured.Unstructured, before task) task {
	result := task{Name: object.GetName(), Agent: before.Agent, Phase: "Pending"}
	result.Priority, _, _ = unstructured.NestedString(object.Object, "spec", "priority")
	readStatus(object, &result)
	if len(result.Assigned) > 0 {
		result.Agent = result.Assigned[0].Name
	}
	if result.Phase == "Completed" {
		result.Agent = result.agentName()
	}
	return result
}

// agentName is the agent that the result names, or else the one that was last seen at the task.
func (t task) agentName() string {
	var signed struct {
		Agent string `json:"agent"`
	}
	if json.Unmarshal(t.Result, &signed) == nil && signed.Agent != "" {
		return signed.Agent
	}
	return t.Agent
}

// readStatus fills in the status. An object that the operator has not seen yet has none.
func readStatus(object *unstructured.Unstructured, into any) {
	status, err := json.Marshal(object.Object["status"])
	if err == nil {
		_ = json.Unmarshal(status, into) // what does not fit our words is not shown
	}
}

func (s swarm) condition(kind string) condition {
	for _, known := range s.Conditions {
		if known.Type == kind {
			return known
		}
	}
	return condition{}
}

func (s swarm) ready() bool { return s.condition("Ready").Status == "True" }

// isReconciled reports whether an operator looks after the swarm at all.
func (s swarm) isReconciled() bool { return s.Phase != "" || len(s.Conditions) > 0 }

// explanation is why the swarm is not ready, in the operator's own words.
func (s swarm) explanation() string {
	var messages []string
	if ready := s.condition("Ready"); ready.Status != "True" && ready.Message != "" {
		messages = append(messages, ready.Message)
	}
	if degraded := s.condition("Degraded"); degraded.Status == "True" {
		messages = append(messages, degraded.Message)
	}
	return strings.Join(messages, "; ")
}

func (t task) final() bool {
	return t.Phase == "Completed" || t.Phase == "Failed" || t.Phase == "Cancelled"
}

func (s demoState) doneTasks() int {
	done := 0
	for _, task := range s.tasks {
		if task.Phase == "Completed" {
			done++
		}
	}
	return done
}

func (s demoState) isOver() bool {
	for _, task := range s.tasks {
		if !task.final() {
			return false
		}
	}
	return len(s.tasks) > 0
}
