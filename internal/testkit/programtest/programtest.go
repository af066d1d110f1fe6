// Package programtest has what tests of the programs swarm-agent and swarm-worker share.
package programtest

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Call is a command line, and what must come of it.
type Call struct {
	arguments      string
	code           int
	stdout, stderr string
}

// Expect returns a call that must end with this exit code, exactly this standard output, and this part of standard error.
func Expect(arguments string, code int, stdout, stderr string) Call {
	return Call{arguments, code, stdout, stderr}
}

// CheckCalls calls a program in this process.
func CheckCalls(t *testing.T, main func(arguments []string, stdout, stderr io.Writer) int, calls ...Call) {
	for _, c := range calls {
		t.Run(c.arguments, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := main(strings.Fields(c.arguments), &stdout, &stderr)
			if code != c.code || stdout.String() != c.stdout || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q", code, &stdout, &stderr)
			}
		})
	}
}

// ReadPID returns the process ID that a program has written to a file, 0 as long as it has not.
func ReadPID(file string) int {
	content, _ := os.ReadFile(file)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	return pid
}

// IsGone reports whether a process has ended. It may still be a zombie.
func IsGone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// Eventually waits for something that happens outside of this process.
func Eventually(t *testing.T, description string, condition func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for ticker := time.NewTicker(5 * time.Millisecond); !condition(); {
		select {
		case <-ticker.C:
		case <-limit:
			t.Fatalf("not in time: %s", description)
		}
	}
}
