//go:build unix

// Command pause is the container that holds a pod's namespaces open. It promises two things: it ends at once, with
// status 0, on SIGINT or SIGTERM, and as the first process of a shared PID namespace it leaves no zombie behind.
// It never reads a file, opens a connection or writes anything but its version.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Stamped by the image builder.
var version, commit, date = "dev", "unknown", "unknown"

func main() {
	if len(os.Args) > 1 {
		os.Exit(answer(os.Args[1]))
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	wait(signals, reap)
}

func answer(argument string) int {
	if argument != "--version" {
		fmt.Fprintf(os.Stderr, "pause: unknown argument %q (usage: pause [--version])\n", argument)
		return 2
	}
	fmt.Printf("pause %s (commit %s, built %s)\n", version, commit, date)
	return 0
}

// wait returns on the first signal that is not about a child.
func wait(signals <-chan os.Signal, reap func()) {
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended: several deaths may arrive as one signal.
func reap() {
	for {
		child, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || child <= 0 {
			return
		}
	}
}
