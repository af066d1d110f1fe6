package assign

// hashSeed is part of Algorithm: a different seed is a different algorithm.
const hashSeed = 0x5357_4152_4d00_0001

// hashName is FNV-1a with a finalizer that spreads short names over all bits.
func hashName(name string) uint64 {
	hash := uint64(14695981039346656037)
	for n := range len(name) {
		hash = (hash ^ uint64(name[n])) * 1099511628211
	}
	return mix(hash ^ hashSeed)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// pairHash hashes a job with the number of a worker or a round.
func pairHash(job uint64, number int) uint64 { return mix(job ^ mix(uint64(number)^hashSeed)) }

// jumpHash is the consistent hash of Lamping and Veach in integers: adding a bucket moves one job in as many as there are buckets.
func jumpHash(key uint64, buckets int) int {
	bucket, next := int64(-1), int64(0)
	for next < int64(buckets) {
		bucket = next
		key = key*2862933555777941757 + 1
		next = (bucket + 1) << 31 / int64(key>>33+1)
	}
	return int(bucket)
}

// nameHashes returns the hashes of the job names, computed once per list.
func (l *JobList) nameHashes() []uint64 {
	l.hashOnce.Do(func() {
		l.hashes = make([]uint64, len(l.jobs))
		for at := range l.jobs {
			l.hashes[at] = hashName(l.jobs[at].Name)
		}
	})
	return l.hashes
}
