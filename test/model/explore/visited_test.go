package explore

import "testing"

func TestVisitedKnowsEveryHashOnce(t *testing.T) {
	var set visited
	const count = 10_000
	hashes := []uint64{0}
	for n := uint64(1); n < count; n++ {
		hashes = append(hashes, n<<20) // all of them meet in the same few slots
	}
	for round, want := range []bool{true, false} {
		for _, hash := range hashes {
			if set.add(hash) != want {
				t.Fatalf("round %d: hash %x is new: %t", round, hash, !want)
			}
		}
	}
	if set.count != count {
		t.Errorf("%d hashes, want %d", set.count, count)
	}
}
