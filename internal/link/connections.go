package link

import "slices"

// mostProcesses is how many processes of one agent are remembered. They run one after the other or, when a pod runs two of
// them by mistake, alternate.
const mostProcesses = 8

// A connection is identified by the process that opened it and its number there. The zero value belongs to an agent of a
// version without such numbers.
type connection struct {
	process string // includes the UID of its pod
	number  int64
}

// connections holds the latest connection of each process of one agent, the most recent process last.
type connections []connection

// latest returns the number of the last connection of a process, or 0 if it is unknown.
func (c connections) latest(process string) int64 {
	for _, known := range c {
		if known.process == process {
			return known.number
		}
	}
	return 0
}

// note records a connection that is later than all others of its process.
func (c connections) note(latest connection) connections {
	others := slices.DeleteFunc(c, func(known connection) bool { return known.process == latest.process })
	if len(others) == mostProcesses {
		others = others[1:]
	}
	return append(others, latest)
}
