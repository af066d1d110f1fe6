package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// taskOrder is the payload of a task: how long to work and how to end.
type taskOrder struct {
	Milliseconds       int    `json:"milliseconds"`
	Exit               int    `json:"exit"`
	SucceedFromAttempt int    `json:"untilAttempt"` // exit 75 before this attempt
	FastFromAttempt    int    `json:"quickFrom"`    // from this attempt on the work takes no time
	Output             int    `json:"output"`       // size in bytes of a meaningless result
	Message            string `json:"say"`          // on standard error
	Progress           []int  `json:"progress"`     // percentages to report at the beginning, instead of the real ones
}

// aliveInterval is how often work records that it is alive.
const aliveInterval = 20 * time.Millisecond

// ending is a failure with its own exit status.
type ending struct {
	status int
	text   string
}

func (e ending) Error() string { return e.text }

// work is the code of an agent. It appends to a file of the agent at the start, every 20 ms and at the end, so that a test can see from
// what really ran whether two attempts overlapped.
func work(ctx context.Context, out io.Writer, arguments []string) error {
	if _, err := parse(newFlags("work"), arguments, 0, 0); err != nil {
		return err
	}
	var order taskOrder
	if err := json.NewDecoder(os.Stdin).Decode(&order); err != nil {
		return ending{65, "payload: " + err.Error()}
	}
	log, err := openAttemptLog()
	if err != nil {
		return err
	}
	defer log.Close()
	runFor(ctx, log, order)
	if ctx.Err() != nil {
		return ending{143, "stopped"}
	}
	log.record("finish")
	return order.finish(out)
}

// runFor runs for the requested time, and reports its progress.
func runFor(ctx context.Context, log *attemptLog, order taskOrder) {
	progress, err := os.OpenFile(os.Getenv("SWARM_PROGRESS"), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		defer progress.Close()
	}
	length, began, lastReported := order.duration(), time.Now(), -1
	for _, percent := range order.Progress {
		lastReported = 100 // nothing else is reported
		fmt.Fprintf(progress, "%d working\n", percent)
	}
	for ctx.Err() == nil && time.Since(began) < length {
		log.record("alive")
		if percent := int(100 * time.Since(began) / length); percent/10 > lastReported/10 && progress != nil {
			lastReported = percent
			fmt.Fprintf(progress, "%d working\n", percent)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(aliveInterval, length-time.Since(began))):
		}
	}
}

func (o taskOrder) duration() time.Duration {
	if o.FastFromAttempt > 0 && os.Getenv("SWARM_ATTEMPT") >= fmt.Sprint(o.FastFromAttempt) {
		return 0
	}
	return time.Duration(o.Milliseconds) * time.Millisecond
}

func (o taskOrder) finish(out io.Writer) error {
	if attempt := os.Getenv("SWARM_ATTEMPT"); o.SucceedFromAttempt > 0 && attempt < fmt.Sprint(o.SucceedFromAttempt) {
		return ending{75, "attempt " + attempt + " is too early"}
	}
	if o.Exit != 0 {
		return ending{o.Exit, o.Message}
	}
	if o.Output > 0 {
		_, err := io.WriteString(out, strings.Repeat("x", o.Output))
		return err
	}
	return json.NewEncoder(out).Encode(map[string]string{"task": os.Getenv("SWARM_TASK"), "agent": os.Getenv("SWARM_AGENT"),
		"attempt": os.Getenv("SWARM_ATTEMPT")})
}

// An attemptLog records one attempt line by line.
type attemptLog struct{ *os.File }

func openAttemptLog() (*attemptLog, error) {
	file, err := os.OpenFile(filepath.Join(os.Getenv("SWARM_STATE"), "work.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of attempt: %w", err)
	}
	made := &attemptLog{file}
	made.record("start")
	return made, nil
}

func (t *attemptLog) record(event string) {
	line, _ := json.Marshal(map[string]any{ // strings and a time always encode
		"time": time.Now(), "event": event, "agent": os.Getenv("SWARM_AGENT"), "task": os.Getenv("SWARM_TASK"),
		"key": os.Getenv("SWARM_IDEMPOTENCY_KEY"), "attempt": os.Getenv("SWARM_ATTEMPT"), "pid": os.Getpid(),
	})
	_, _ = t.Write(append(line, '\n'))
}
