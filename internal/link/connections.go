package link

import "slices"

// maxProcesses is how many processes of one agent are remembered. They run one after the other or, when a pod runs two of
// them by mistake, alternate.
const maxProcesses = 8

// A connectionID is identified by the process that opened it and its number there. The zero value belongs to an agent of a
// version without such numbers.
type connectionID struct {
	process string // includes the UID of its pod
	number  int64
}

// connectionHistory holds the latest connection of each process of one agent, the most recent process last.
type connectionHistory []connectionID

// latestNumber returns the number of the last connection of a process, or 0 if it is unknown.
func (c connectionHistory) latestNumber(process string) int64 {
	for _, known := range c {
		if known.process == process {
			return known.number
		}
	}
	return 0
}

// record records a connection that is later than all others of its process.
func (c connectionHistory) record(latest connectionID) connectionHistory {
	others := slices.DeleteFunc(c, func(known connectionID) bool { return known.process == latest.process })
	if len(others) == maxProcesses {
		others = others[1:]
	}
	return append(others, latest)
}
