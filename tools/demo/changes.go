package main

import (
	"fmt"
	"time"
)

// changes returns, line by line, what is different since the scene before: for logs, where nothing can be drawn over.
func changes(before, now scene) []string {
	found := []string{}
	say := func(was, is string) {
		if is != was && is != "" {
			found = append(found, stamped(now.elapsed, is))
		}
	}
	say(heading(before).text(), heading(now).text())
	say(before.trouble, now.trouble)
	say(before.swarm.explanation(), now.swarm.explanation())
	rows := map[string]string{}
	for _, task := range before.tasks {
		rows[task.Name] = row(task).text()
	}
	for _, task := range now.tasks {
		say(rows[task.Name], row(task).text())
	}
	return found
}

func stamped(elapsed time.Duration, text string) string {
	return fmt.Sprintf("%6.1f s  %s", elapsed.Seconds(), text)
}
