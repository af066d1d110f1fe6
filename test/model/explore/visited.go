package explore

// visited is a set of hashes. It has one array, so a lookup costs one memory access, the most frequent operation of a search.
type visited struct {
	slots []uint64 // 0: free
	count int
}

// add reports whether the hash is new. A hash of 0 counts as 1.
func (v *visited) add(hash uint64) bool {
	if 4*v.count >= 3*len(v.slots) {
		v.grow()
	}
	at := v.find(max(hash, 1))
	if v.slots[at] != 0 {
		return false
	}
	v.slots[at] = max(hash, 1)
	v.count++
	return true
}

// find returns the slot that has the hash, or the free one where it belongs.
func (v *visited) find(hash uint64) uint64 {
	mask := uint64(len(v.slots) - 1)
	at := hash & mask
	for v.slots[at] != 0 && v.slots[at] != hash {
		at = (at + 1) & mask
	}
	return at
}

func (v *visited) grow() {
	before := v.slots
	v.slots = make([]uint64, max(1<<12, 2*len(before)))
	for _, hash := range before {
		if hash != 0 {
			v.slots[v.find(hash)] = hash
		}
	}
}
