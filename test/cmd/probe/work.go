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

// order is the payload of a task: how long to work and how to end.
type order struct {
	Milliseconds int    `json:"milliseconds"`
	Exit         int    `json:"exit"`
	UntilAttempt int    `json:"untilAttempt"` // exit 75 before this attempt
	QuickFrom    int    `json:"quickFrom"`    // from this attempt on work takes no time
	Output       int    `json:"output"`       // bytes of a result that is only long
	Say          string `json:"say"`          // on standard error
	Progress     []int  `json:"progress"`     // percentages to report at the beginning, instead of the real ones
}

// witnessEvery is how often work says that it is alive.
const witnessEvery = 20 * time.Millisecond

// ending is a failure with an exit status of its own.
type ending struct {
	status int
	text   string
}

func (e ending) Error() string { return e.text }

// work is the code of an agent. It testifies to a file of the agent's own, at start, every 20 ms and at the end, so that a test can
// tell from what really ran, rather than from what anybody believed, whether two attempts overlapped.
func work(ctx context.Context, out io.Writer, arguments []string) error {
	if _, err := parse(newFlags("work"), arguments, 0, 0); err != nil {
		return err
	}
	var wanted order
	if err := json.NewDecoder(os.Stdin).Decode(&wanted); err != nil {
		return ending{65, "payload: " + err.Error()}
	}
	testimony, err := testify()
	if err != nil {
		return err
	}
	defer testimony.Close()
	labour(ctx, testimony, wanted)
	if ctx.Err() != nil {
		return ending{143, "stopped"}
	}
	testimony.say("finish")
	return wanted.end(out)
}

// labour lasts as long as it was told, and says how far it is.
func labour(ctx context.Context, testimony *testimony, wanted order) {
	progress, err := os.OpenFile(os.Getenv("SWARM_PROGRESS"), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		defer progress.Close()
	}
	length, began, told := wanted.length(), time.Now(), -1
	for _, percent := range wanted.Progress {
		told = 100 // nothing else is reported
		fmt.Fprintf(progress, "%d working\n", percent)
	}
	for ctx.Err() == nil && time.Since(began) < length {
		testimony.say("alive")
		if percent := int(100 * time.Since(began) / length); percent/10 > told/10 && progress != nil {
			told = percent
			fmt.Fprintf(progress, "%d working\n", percent)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(witnessEvery, length-time.Since(began))):
		}
	}
}

func (o order) length() time.Duration {
	if o.QuickFrom > 0 && os.Getenv("SWARM_ATTEMPT") >= fmt.Sprint(o.QuickFrom) {
		return 0
	}
	return time.Duration(o.Milliseconds) * time.Millisecond
}

func (o order) end(out io.Writer) error {
	if attempt := os.Getenv("SWARM_ATTEMPT"); o.UntilAttempt > 0 && attempt < fmt.Sprint(o.UntilAttempt) {
		return ending{75, "attempt " + attempt + " is too early"}
	}
	if o.Exit != 0 {
		return ending{o.Exit, o.Say}
	}
	if o.Output > 0 {
		_, err := io.WriteString(out, strings.Repeat("x", o.Output))
		return err
	}
	return json.NewEncoder(out).Encode(map[string]string{"task": os.Getenv("SWARM_TASK"), "agent": os.Getenv("SWARM_AGENT"), "attempt": os.Getenv("SWARM_ATTEMPT")})
}

// A testimony is a line-by-line account of one attempt.
type testimony struct{ *os.File }

func testify() (*testimony, error) {
	file, err := os.OpenFile(filepath.Join(os.Getenv("SWARM_STATE"), "work.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open testimony: %w", err)
	}
	made := &testimony{file}
	made.say("start")
	return made, nil
}

func (t *testimony) say(event string) {
	line, _ := json.Marshal(map[string]any{ // strings and a time always encode
		"time": time.Now(), "event": event, "agent": os.Getenv("SWARM_AGENT"), "task": os.Getenv("SWARM_TASK"),
		"key": os.Getenv("SWARM_IDEMPOTENCY_KEY"), "attempt": os.Getenv("SWARM_ATTEMPT"), "pid": os.Getpid(),
	})
	_, _ = t.Write(append(line, '\n'))
}
