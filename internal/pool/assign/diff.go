package assign

import (
	"bytes"
	"slices"
	"unsafe"
)

// listDiff maps positions of one list to another: unchanged before head, moved by a fixed offset from tail on.
type listDiff struct {
	head, tail int32   // positions in the first list
	offset     int32   // offset of the tail
	middle     []int32 // positions of the jobs between, or gone
	added      []int32 // the jobs that only the other list has, ascending
}

const noPosition = -1

// diff compares the list with another.
func (l *JobList) diff(other *JobList) listDiff {
	head, tail := l.commonEndsWith(other)
	changed := l.jobs[head : len(l.jobs)-tail]
	diff := listDiff{head: int32(head), tail: int32(len(l.jobs) - tail), offset: int32(len(other.jobs) - len(l.jobs)),
		middle: make([]int32, len(changed))}
	index := make(map[string]int32, len(changed))
	for n := range changed {
		index[changed[n].Name] = int32(n)
		diff.middle[n] = noPosition
	}
	for at := head; at < len(other.jobs)-tail; at++ {
		if n, found := index[other.jobs[at].Name]; found {
			diff.middle[n] = int32(at)
		} else {
			diff.added = append(diff.added, int32(at))
		}
	}
	return diff
}

// position returns the position of a job in the other list, or gone.
func (d *listDiff) position(at int32) int32 {
	switch {
	case at < d.head:
		return at
	case at >= d.tail:
		return at + d.offset
	}
	return d.middle[at-d.head]
}

// affects reports whether positions of a share may have changed.
func (d *listDiff) affects(jobs []int32) bool { return len(jobs) > 0 && jobs[len(jobs)-1] >= d.head }

// countAffected returns the number of jobs in the touched shares.
func (d *listDiff) countAffected(shares []indexedShare) (sum int) {
	for n := range shares {
		if d.affects(shares[n].jobs) {
			sum += len(shares[n].jobs)
		}
	}
	return sum
}

// appendTranslated adds the jobs of a share by their positions in the other list, ascending, without those that are gone.
func (d *listDiff) appendTranslated(positions, jobs []int32) []int32 {
	start := len(positions)
	if jobs[0] >= d.tail {
		positions = positions[:start+len(jobs)]
		for n, at := range jobs {
			positions[start+n] = at + d.offset
		}
		return positions
	}
	for _, at := range jobs {
		if to := d.position(at); to != noPosition {
			positions = append(positions, to)
		}
	}
	if translated := positions[start:]; !slices.IsSorted(translated) {
		slices.Sort(translated)
	}
	return positions
}

// commonEndsWith is ends, from the stored result if the other list was made from this one.
func (l *JobList) commonEndsWith(other *JobList) (head, tail int) {
	if other.previous == l {
		return other.commonHead, other.commonTail
	}
	return commonEnds(l.jobs, other.jobs)
}

// blockSize is the number of jobs compared at a time.
const blockSize = 64

// commonEnds returns how many jobs two lists have in common at the beginning and, of the rest, at the end.
func commonEnds(old, jobs []Job) (head, tail int) {
	shorter := min(len(old), len(jobs))
	for same := true; same && head < shorter; {
		end := min(head+blockSize, shorter)
		head += commonPrefix(old[head:end], jobs[head:end])
		same = head == end
	}
	old, jobs, shorter = old[head:], jobs[head:], shorter-head
	for same := true; same && tail < shorter; {
		end := min(tail+blockSize, shorter)
		tail += commonSuffix(old[len(old)-end:len(old)-tail], jobs[len(jobs)-end:len(jobs)-tail])
		same = tail == end
	}
	return head, tail
}

// commonPrefix returns how many jobs two pieces of the same length have in common at the beginning.
func commonPrefix(a, b []Job) (same int) {
	if sameMemory(a, b) {
		return len(a)
	}
	for same < len(a) && a[same] == b[same] {
		same++
	}
	return same
}

// commonSuffix is front from the end.
func commonSuffix(a, b []Job) (same int) {
	if sameMemory(a, b) {
		return len(a)
	}
	for same < len(a) && a[len(a)-1-same] == b[len(b)-1-same] {
		same++
	}
	return same
}

// sameMemory reports whether two pieces are the same bits, including the addresses of names. It compares at memory speed. Jobs that are
// not identical can still be equal, if their names were read again.
func sameMemory(a, b []Job) bool { return bytes.Equal(rawBytes(a), rawBytes(b)) }

func rawBytes(jobs []Job) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(jobs))), len(jobs)*int(unsafe.Sizeof(Job{})))
}
