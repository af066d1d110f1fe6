package assign

// seed is part of Algorithm: a different seed is a different algorithm.
const seed = 0x5357_4152_4d00_0001

// hashName is FNV-1a with a finalizer that spreads short names over all bits.
func hashName(name string) uint64 {
	hash := uint64(14695981039346656037)
	for n := range len(name) {
		hash = (hash ^ uint64(name[n])) * 1099511628211
	}
	return mix(hash ^ seed)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// pair hashes a job with the number of a worker or a round.
func pair(job uint64, number int) uint64 { return mix(job ^ mix(uint64(number)^seed)) }

// jump is the consistent hash of Lamping and Veach in integers: adding a bucket moves one job in as many as there are buckets.
func jump(key uint64, buckets int) int {
	at, next := int64(-1), int64(0)
	for next < int64(buckets) {
		at = next
		key = key*2862933555777941757 + 1
		next = (at + 1) << 31 / int64(key>>33+1)
	}
	return int(at)
}

// hash returns the hashes of the job names, computed once per list.
func (l *Jobs) hash() []uint64 {
	l.hashed.Do(func() {
		l.hashes = make([]uint64, len(l.jobs))
		for at := range l.jobs {
			l.hashes[at] = hashName(l.jobs[at].Name)
		}
	})
	return l.hashes
}
