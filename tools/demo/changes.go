package main

import (
	"fmt"
	"time"
)

// changes returns, line by line, what is different since the scene before: for logs, where nothing can be drawn over.
func changes(before, current demoState) []string {
	lines := []string{}
	add := func(was, is string) {
		if is != was && is != "" {
			lines = append(lines, withElapsed(current.elapsed, is))
		}
	}
	add(heading(before).text(), heading(current).text())
	add(before.connectionError, current.connectionError)
	add(before.swarm.explanation(), current.swarm.explanation())
	rows := map[string]string{}
	for _, task := range before.tasks {
		rows[task.Name] = row(task).text()
	}
	for _, task := range current.tasks {
		add(rows[task.Name], row(task).text())
	}
	return lines
}

func withElapsed(elapsed time.Duration, text string) string {
	return fmt.Sprintf("%6.1f s  %s", elapsed.Seconds(), text)
}
