package command

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxLineBytes is how much of a progress line is read. A longer one is cut into several, of which only the first counts.
const maxLineBytes = 1 << 10

// endMark is a line that no program writes by accident.
const endMark = "\x00end"

// progressPipe is the pipe through which a program reports its progress.
type progressPipe struct {
	name string
	dir  string
	pipe *os.File
	done chan struct{}
}

func openProgressPipe(parentDir string, report func(int32, string)) (*progressPipe, error) {
	dir, err := os.MkdirTemp(parentDir, "attempt-")
	if err != nil {
		return nil, fmt.Errorf("make progress pipe: %w", err)
	}
	p := &progressPipe{name: filepath.Join(dir, "progress"), dir: dir, done: make(chan struct{})}
	if err := syscall.Mkfifo(p.name, 0o600); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("make progress pipe %s: %w", p.name, err)
	}
	// Opening for both reading and writing does not wait for a peer, and the end of one writer does not end the pipe. In non-blocking mode,
	// closing the pipe wakes the reader.
	p.pipe, err = os.OpenFile(p.name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("open progress pipe: %w", err)
	}
	go p.read(report)
	return p, nil
}

func (p *progressPipe) read(report func(int32, string)) {
	defer close(p.done)
	reader := bufio.NewReaderSize(p.pipe, maxLineBytes)
	for {
		line, tooLong, err := reader.ReadLine()
		if err != nil || string(line) == endMark {
			return
		}
		if percent, message, ok := parseProgress(string(line)); ok && !tooLong {
			report(percent, message)
		}
	}
}

// parseProgress parses "40" or "40 message"; a percent sign is allowed.
func parseProgress(line string) (percent int32, message string, ok bool) {
	number, message, _ := strings.Cut(strings.TrimSpace(line), " ")
	parsed, err := strconv.ParseInt(strings.TrimSuffix(number, "%"), 10, 32)
	if err != nil || parsed < 0 || parsed > 100 {
		return 0, "", false
	}
	return int32(parsed), strings.ToValidUTF8(strings.TrimSpace(message), "\uFFFD"), true
}

// close reads what the program left in the pipe and removes the pipe. Our own mark is the last line: once it is read, so is everything
// before it.
func (p *progressPipe) close() {
	_ = p.pipe.SetDeadline(time.Now().Add(pipeDelay)) // a descendant that left the group may write forever
	if _, err := p.pipe.WriteString("\n" + endMark + "\n"); err == nil {
		<-p.done
	}
	_ = p.pipe.Close()
	<-p.done
	_ = os.RemoveAll(p.dir)
}
