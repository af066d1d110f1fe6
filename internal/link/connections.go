package link

import "slices"

// mostProcesses is how many processes of one agent are remembered. They come one after the other, or, when a pod runs two of them by
// mistake, in turn.
const mostProcesses = 8

// A connection is named by the process that opened it and by its number there. The zero value is that of an agent from before such numbers.
type connection struct {
	process string // with the UID of its pod
	number  int64
}

// connections are the latest of each process of one agent, the process that came last at the end.
type connections []connection

// latest returns the number of the last connection of a process, 0 when it is unknown.
func (c connections) latest(process string) int64 {
	for _, known := range c {
		if known.process == process {
			return known.number
		}
	}
	return 0
}

// note remembers a connection that is later than all others of its process.
func (c connections) note(latest connection) connections {
	others := slices.DeleteFunc(c, func(known connection) bool { return known.process == latest.process })
	if len(others) == mostProcesses {
		others = others[1:]
	}
	return append(others, latest)
}
