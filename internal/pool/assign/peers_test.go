package assign

import (
	"fmt"
	"testing"
)

// peers are well-known families of algorithms, with the standard library only, for comparison with BenchmarkFirst. Published
// implementations are in test/bench/peers, a separate module.
var peers = []struct {
	name string
	most int // jobs times workers above which it takes minutes
	of   func(hashes []uint64, workers int) []int32
}{
	{"jump", 1 << 62, func(hashes []uint64, workers int) []int32 {
		owners := make([]int32, len(hashes))
		for n, hash := range hashes {
			owners[n] = int32(jumpHash(hash, workers))
		}
		return owners
	}},
	{"rendezvous", 100_000_000, func(hashes []uint64, workers int) []int32 {
		owners := make([]int32, len(hashes))
		for n, hash := range hashes {
			for w := range workers {
				if pairHash(hash, w) < pairHash(hash, int(owners[n])) {
					owners[n] = int32(w)
				}
			}
		}
		return owners
	}},
	{"maglev", 1 << 62, maglev},
}

// maglev fills a table of prime size in turns, each worker following its own permutation.
func maglev(hashes []uint64, workers int) []int32 {
	const places = 1_000_003
	table := make([]int32, places)
	next := make([]uint64, workers)
	for filled := 0; filled < places; {
		for w := 0; w < workers && filled < places; w++ {
			offset, skip := pairHash(1, w)%places, pairHash(2, w)%(places-1)+1
			at := (offset + next[w]*skip) % places
			for table[at] != 0 {
				next[w]++
				at = (offset + next[w]*skip) % places
			}
			table[at] = int32(w + 1)
			filled++
		}
	}
	owners := make([]int32, len(hashes))
	for n, hash := range hashes {
		owners[n] = table[hash%places] - 1
	}
	return owners
}

func BenchmarkPeers(b *testing.B) {
	for _, scale := range scales {
		hashes := newTestList(b, equalJobs(scale.jobs)...).nameHashes()
		for _, peer := range peers {
			if scale.jobs*scale.workers > peer.most {
				continue
			}
			b.Run(fmt.Sprintf("%s/%s", peer.name, scale.name), func(b *testing.B) {
				b.ReportAllocs()
				var owners []int32
				for b.Loop() {
					owners = peer.of(hashes, scale.workers)
				}
				b.StopTimer()
				compareOwners(b, owners, peer.of(hashes, scale.workers+1), scale.workers)
			})
		}
	}
}

func compareOwners(b *testing.B, before, after []int32, workers int) {
	b.Helper()
	counts := make([]int, workers)
	highest, moved := 0, 0
	for n, owner := range before {
		counts[owner]++
		highest = max(highest, counts[owner])
		if after[n] != owner {
			moved++
		}
	}
	b.ReportMetric(float64(highest)*float64(workers)/float64(len(before)), "max/mean")
	b.ReportMetric(float64(moved)*float64(workers+1)/float64(len(before)), "moves/min")
}
