package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// A payload is the work, as a Task has it.
type payload struct {
	Topic   string  `json:"topic"`
	Steps   int     `json:"steps"`
	Seconds float64 `json:"seconds"`
	Flaky   bool    `json:"flaky"` // the first attempt fails half-way
}

const (
	mostSteps   = 1000
	mostSeconds = 600
)

// parse refuses invalid input, and the error says what would be right.
func parse(in io.Reader) (payload, error) {
	wanted := payload{Steps: 20, Seconds: 3}
	if err := json.NewDecoder(in).Decode(&wanted); err != nil {
		return payload{}, fmt.Errorf(`%w: the payload is not an object such as {"topic": "leases", "steps": 20, "seconds": 3}: %w`, errBadInput, err)
	}
	switch {
	case len(words(wanted.Topic)) == 0:
		return payload{}, fmt.Errorf(`%w: the payload has no topic: write a word or two, such as {"topic": "leases"}`, errBadInput)
	case wanted.Steps < 1 || wanted.Steps > mostSteps:
		return payload{}, fmt.Errorf("%w: steps is %d: write 1 to %d", errBadInput, wanted.Steps, mostSteps)
	case wanted.Seconds < 0 || wanted.Seconds > mostSeconds:
		return payload{}, fmt.Errorf("%w: seconds is %g: write 0 to %d", errBadInput, wanted.Seconds, mostSeconds)
	}
	wanted.Topic = strings.TrimSpace(wanted.Topic)
	return wanted, nil
}

// pause is the time that one step takes.
func (p payload) pause() time.Duration {
	return time.Duration(p.Seconds * float64(time.Second) / float64(p.Steps))
}
