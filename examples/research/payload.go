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
	Flaky   bool    `json:"flaky"` // the first attempt fails halfway
}

const (
	maxSteps   = 1000
	maxSeconds = 600
)

// parsePayload refuses invalid input, and the error says what would be right.
func parsePayload(in io.Reader) (payload, error) {
	p := payload{Steps: 20, Seconds: 3}
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return payload{}, fmt.Errorf(`%w: the payload is not an object such as {"topic": "leases", "steps": 20, "seconds": 3}: %w`, errBadInput,
			err)
	}
	switch {
	case len(keywords(p.Topic)) == 0:
		return payload{}, fmt.Errorf(`%w: the payload has no topic: write a word or two, such as {"topic": "leases"}`, errBadInput)
	case p.Steps < 1 || p.Steps > maxSteps:
		return payload{}, fmt.Errorf("%w: steps is %d: write 1 to %d", errBadInput, p.Steps, maxSteps)
	case p.Seconds < 0 || p.Seconds > maxSeconds:
		return payload{}, fmt.Errorf("%w: seconds is %g: write 0 to %d", errBadInput, p.Seconds, maxSeconds)
	}
	p.Topic = strings.TrimSpace(p.Topic)
	return p, nil
}

// pause is the time that one step takes.
func (p payload) pause() time.Duration {
	return time.Duration(p.Seconds * float64(time.Second) / float64(p.Steps))
}
