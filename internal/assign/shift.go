package assign

import (
	"bytes"
	"slices"
	"unsafe"
)

// shift maps positions of one list to another: unchanged before head, moved by a fixed offset from tail on.
type shift struct {
	head, tail int32   // positions in the first list
	by         int32   // offset of the tail
	middle     []int32 // positions of the jobs between, or gone
	added      []int32 // the jobs that only the other list has, ascending
}

const gone = -1

// shiftTo compares the list with another.
func (l *Jobs) shiftTo(other *Jobs) shift {
	head, tail := l.common(other)
	between := l.jobs[head : len(l.jobs)-tail]
	s := shift{head: int32(head), tail: int32(len(l.jobs) - tail), by: int32(len(other.jobs) - len(l.jobs)), middle: make([]int32, len(between))}
	index := make(map[string]int32, len(between))
	for n := range between {
		index[between[n].Name] = int32(n)
		s.middle[n] = gone
	}
	for at := head; at < len(other.jobs)-tail; at++ {
		if n, found := index[other.jobs[at].Name]; found {
			s.middle[n] = int32(at)
		} else {
			s.added = append(s.added, int32(at))
		}
	}
	return s
}

// of returns the position of a job in the other list, or gone.
func (s *shift) of(at int32) int32 {
	switch {
	case at < s.head:
		return at
	case at >= s.tail:
		return at + s.by
	}
	return s.middle[at-s.head]
}

// touches reports whether positions of a share may have changed.
func (s *shift) touches(jobs []int32) bool { return len(jobs) > 0 && jobs[len(jobs)-1] >= s.head }

// count returns the number of jobs in the touched shares.
func (s *shift) count(shares []share) (sum int) {
	for n := range shares {
		if s.touches(shares[n].jobs) {
			sum += len(shares[n].jobs)
		}
	}
	return sum
}

// append adds the jobs of a share by their positions in the other list, ascending, without those that are gone.
func (s *shift) append(space, jobs []int32) []int32 {
	begin := len(space)
	if jobs[0] >= s.tail {
		space = space[:begin+len(jobs)]
		for n, at := range jobs {
			space[begin+n] = at + s.by
		}
		return space
	}
	for _, at := range jobs {
		if to := s.of(at); to != gone {
			space = append(space, to)
		}
	}
	if moved := space[begin:]; !slices.IsSorted(moved) {
		slices.Sort(moved)
	}
	return space
}

// common is ends, from the stored result if the other list was made from this one.
func (l *Jobs) common(other *Jobs) (head, tail int) {
	if other.prior == l {
		return other.head, other.tail
	}
	return ends(l.jobs, other.jobs)
}

// stride is the number of jobs compared at a time.
const stride = 64

// ends returns how many jobs two lists have in common at the beginning and, of the rest, at the end.
func ends(old, jobs []Job) (head, tail int) {
	shorter := min(len(old), len(jobs))
	for same := true; same && head < shorter; {
		end := min(head+stride, shorter)
		head += front(old[head:end], jobs[head:end])
		same = head == end
	}
	old, jobs, shorter = old[head:], jobs[head:], shorter-head
	for same := true; same && tail < shorter; {
		end := min(tail+stride, shorter)
		tail += back(old[len(old)-end:len(old)-tail], jobs[len(jobs)-end:len(jobs)-tail])
		same = tail == end
	}
	return head, tail
}

// front returns how many jobs two pieces of the same length have in common at the beginning.
func front(a, b []Job) (same int) {
	if identical(a, b) {
		return len(a)
	}
	for same < len(a) && a[same] == b[same] {
		same++
	}
	return same
}

// back is front from the end.
func back(a, b []Job) (same int) {
	if identical(a, b) {
		return len(a)
	}
	for same < len(a) && a[len(a)-1-same] == b[len(b)-1-same] {
		same++
	}
	return same
}

// identical reports whether two pieces are the same bits, including the addresses of names. It compares at memory speed. Jobs that are
// not identical can still be equal, if their names were read again.
func identical(a, b []Job) bool { return bytes.Equal(bits(a), bits(b)) }

func bits(jobs []Job) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(jobs))), len(jobs)*int(unsafe.Sizeof(Job{})))
}
