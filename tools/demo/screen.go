package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A style is how a piece of text looks.
type style int

const (
	plain style = iota
	bold
	faint
	good
	busy
	bad
	urgent
)

// A piece is text of one style; a line is pieces.
type (
	piece struct {
		text  string
		style style
	}
	line []piece
)

// The columns fit into a terminal of 80.
const barWidth = 10

// screen is the whole frame: a pure function of what is known.
func screen(s demoState, width int) []line {
	lines := append([]line{heading(s)}, progressLine(s), nil)
	lines = append(lines, line{{columns("TASK", "PRIORITY", "PHASE", "AGENT", "PROGRESS"), faint}})
	for _, task := range s.tasks {
		lines = append(lines, row(task))
	}
	for n := range lines {
		lines[n] = lines[n].truncate(width)
	}
	return lines
}

// heading lists the agents, by type.
func heading(s demoState) line {
	result := line{{"swarm " + s.swarm.Name, bold}, {"  ", plain}, phaseOf(s.swarm)}
	for _, kind := range s.swarm.Types {
		look := busy
		if kind.Ready >= kind.Desired {
			look = good
		}
		result = append(result, piece{"  " + kind.Type + " ", plain}, piece{fmt.Sprintf("%d/%d", kind.Ready, kind.Desired), look})
	}
	return result
}

func phaseOf(s swarm) piece {
	switch {
	case s.ready():
		return piece{s.Phase, good}
	case s.Phase == "":
		return piece{"waiting for the operator", busy}
	}
	return piece{s.Phase, busy}
}

// progressLine is how far everything is, and what stands in its way.
func progressLine(s demoState) line {
	result := line{{fmt.Sprintf("%d of %d tasks done, %s", s.doneTasks(), len(s.tasks), seconds(s.elapsed)), plain}}
	switch why := s.swarm.explanation(); {
	case s.connectionError != "":
		result = append(result, piece{"  " + s.connectionError, bad})
	case why != "":
		result = append(result, piece{"  " + why, busy})
	}
	return result
}

func row(t task) line {
	start := fmt.Sprintf("%-16s", t.Name)
	priority := piece{fmt.Sprintf("%-8s  ", t.Priority), priorityStyle(t.Priority)}
	phase := piece{fmt.Sprintf("%-9s  ", t.Phase), phaseStyle(t.Phase)}
	result := line{{start + "  ", plain}, priority, phase}
	if t.Phase == "Running" || t.Phase == "Completed" {
		result = append(result, piece{fmt.Sprintf("%-22s  ", t.Agent), plain})
		return append(append(result, bar(t)...), piece{remark(t), faint})
	}
	return append(result, piece{taskReason(t), reasonStyle(t.Phase)})
}

// taskReason is the reason for which a task waits or has failed.
func taskReason(t task) string {
	if t.Reason == "" {
		return t.Message
	}
	return strings.TrimSuffix(t.Reason+": "+t.Message, ": ")
}

func bar(t task) line {
	full := min(max(t.Progress, 0), 100) * barWidth / 100
	return line{
		{strings.Repeat("█", full), phaseStyle(t.Phase)},
		{strings.Repeat("░", barWidth-full), faint},
		{fmt.Sprintf(" %3d %%", t.Progress), plain},
	}
}

func remark(t task) string {
	switch {
	case t.Attempt > 1:
		return fmt.Sprintf("  attempt %d", t.Attempt)
	case t.Phase == "Running" && t.Message != "":
		return "  " + t.Message
	}
	return ""
}

func columns(words ...string) string {
	return fmt.Sprintf("%-16s  %-8s  %-9s  %-22s  %s", words[0], words[1], words[2], words[3], words[4])
}

func priorityStyle(priority string) style {
	switch priority {
	case "critical":
		return urgent
	case "high":
		return bold
	case "low":
		return faint
	}
	return plain
}

func phaseStyle(phase string) style {
	switch phase {
	case "Completed":
		return good
	case "Running":
		return busy
	case "Failed", "Cancelled":
		return bad
	}
	return faint
}

func reasonStyle(phase string) style {
	if phase == "Failed" || phase == "Cancelled" {
		return bad
	}
	return faint
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func (l line) text() string {
	var all strings.Builder
	for _, piece := range l {
		all.WriteString(piece.text)
	}
	return strings.TrimRight(all.String(), " ")
}

// truncate keeps a line from wrapping, which would upset drawing in place. The display has no character wider than one column.
func (l line) truncate(width int) line {
	var result line
	for _, p := range l {
		size := utf8.RuneCountInString(p.text)
		if size <= width {
			result, width = append(result, p), width-size
			continue
		}
		if width > 0 {
			result = append(result, piece{string([]rune(p.text)[:width-1]) + "…", p.style})
		}
		break
	}
	return result
}
