package topology

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var shapes = []Shape{Mesh, Ring, Star, Hierarchical}

func degrees(g Graph) []int {
	all := make([]int, 0, g.Size)
	for agent := range g.Size {
		all = append(all, len(g.Peers(agent)))
	}
	return all
}

func TestSevenAgents(t *testing.T) {
	for shape, want := range map[Shape][]int{
		Mesh:         {6, 6, 6, 6, 6, 6, 6},
		Ring:         {2, 2, 2, 2, 2, 2, 2},
		Star:         {6, 1, 1, 1, 1, 1, 1},
		Hierarchical: {2, 3, 3, 1, 1, 1, 1},
	} {
		t.Run(string(shape), func(t *testing.T) {
			if got := degrees(Graph{Shape: shape, Size: 7}); !slices.Equal(got, want) {
				t.Errorf("degrees %v, want %v", got, want)
			}
		})
	}
}

func TestFewAgents(t *testing.T) {
	for _, c := range []struct {
		reason string
		graph  Graph
		agent  int
		want   []int
	}{
		{"no agents", Graph{Shape: Mesh}, 0, nil},
		{"alone in a ring", Graph{Shape: Ring, Size: 1}, 0, []int{}},
		{"a ring of two is a line", Graph{Shape: Ring, Size: 2}, 0, []int{1}},
		{"a ring closes at three", Graph{Shape: Ring, Size: 3}, 0, []int{1, 2}},
		{"the hub follows the coordinator", Graph{Shape: Star, Size: 4, Hub: 2}, 2, []int{0, 1, 3}},
		{"others see only the hub", Graph{Shape: Star, Size: 4, Hub: 2}, 3, []int{2}},
		{"a leaf has only its parent", Graph{Shape: Hierarchical, Size: 4}, 3, []int{1}},
		{"an agent that does not exist", Graph{Shape: Mesh, Size: 3}, 3, nil},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := c.graph.Peers(c.agent); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func drawGraph(t *rapid.T) Graph {
	size := rapid.IntRange(1, 60).Draw(t, "size")
	return Graph{Shape: rapid.SampledFrom(shapes).Draw(t, "shape"), Size: size, Hub: rapid.IntRange(0, size-1).Draw(t, "hub")}
}

func TestPeersAndLinkedAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		graph := drawGraph(t)
		for a := range graph.Size {
			peers := graph.Peers(a)
			if !slices.IsSorted(peers) || slices.Contains(peers, a) {
				t.Fatalf("peers of %d: %v", a, peers)
			}
			for b := range graph.Size {
				if graph.Linked(a, b) != slices.Contains(peers, b) || graph.Linked(a, b) != graph.Linked(b, a) {
					t.Fatalf("%d and %d: linked %t, peers %v", a, b, graph.Linked(a, b), peers)
				}
			}
		}
	})
}

func TestGraphIsConnected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		graph := drawGraph(t)
		reached, queue := map[int]bool{0: true}, []int{0}
		for len(queue) > 0 {
			agent := queue[0]
			queue = queue[1:]
			for _, peer := range graph.Peers(agent) {
				if !reached[peer] {
					reached[peer] = true
					queue = append(queue, peer)
				}
			}
		}
		if len(reached) != graph.Size {
			t.Fatalf("%d of %d reached", len(reached), graph.Size)
		}
	})
}

func TestTreeHasOneEdgeLessThanAgents(t *testing.T) {
	for size := 2; size < 40; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			ends := 0
			for _, degree := range degrees(Graph{Shape: Hierarchical, Size: size}) {
				ends += degree
			}
			if ends != 2*(size-1) {
				t.Errorf("%d ends of edges, want %d", ends, 2*(size-1))
			}
		})
	}
}
