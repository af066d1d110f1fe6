package session

import (
	"testing"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// F14: Hello must fit into a frame of 1 MiB, whatever the results are.
func TestHelloHasRoomForSoManyResults(t *testing.T) {
	for name, c := range map[string]struct{ results, bytes, want int }{
		"none":        {0, 0, 0},
		"a few":       {3, 4096, 3},
		"small ones":  {200, 10, maxResultsInHello},
		"as many":     {maxResultsInHello, 10, maxResultsInHello},
		"large ones":  {maxResultsInHello, 6 << 10, 85},
		"a huge one":  {2, 1 << 20, 0},
		"many larger": {1000, 4 << 10, 127},
	} {
		results := make([]*linkv1.Result, c.results)
		for n := range results {
			results[n] = &linkv1.Result{Value: make([]byte, c.bytes)}
		}
		got := fittingResults(results)
		if size := proto.Size(&linkv1.Hello{Unacknowledged: got}); len(got) != c.want || size > 600<<10 {
			t.Errorf("%s: room for %d in %d bytes, want %d", name, len(got), size, c.want)
		}
	}
}
