package kit

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestExpiringMapKeepsEntriesForMinTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recent := ExpiringMap[string, int]{MinTTL: time.Minute}
		time.Sleep(50 * time.Second)
		recent.Put("a", 1)
		for _, c := range []struct {
			pause time.Duration
			known bool
		}{{0, true}, {59 * time.Second, true}, {time.Second, true}, {time.Minute, false}} {
			time.Sleep(c.pause)
			if value, known := recent.Get("a"); known != c.known || known && value != 1 {
				t.Errorf("%s later: got %d, %t, want %t", c.pause, value, known, c.known)
			}
		}
	})
}

func TestExpiringMapDropsAllAfterALongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recent := ExpiringMap[string, int]{MinTTL: time.Minute}
		recent.Put("a", 1)
		time.Sleep(2 * time.Minute)
		if _, known := recent.Get("a"); known || len(recent.older) > 0 {
			t.Error("still known after twice the time")
		}
	})
}

func TestExpiringMapPutAndDeleteAcrossGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recent := ExpiringMap[string, int]{MinTTL: time.Minute}
		recent.Put("a", 1)
		recent.Put("b", 1)
		time.Sleep(time.Minute)
		recent.Put("a", 2)
		recent.Delete("b")
		value, _ := recent.Get("a")
		if _, known := recent.Get("b"); known || value != 2 {
			t.Errorf("got a=%d, b known: %t", value, known)
		}
	})
}

// The cost of an operation must not depend on the number of entries. So no function loops or ranges over a map, and none allocates more
// when there are more entries.
func TestStaleReadGuardLooksAtOneEntry(t *testing.T) {
	for _, file := range []string{"expiringmap.go", "stalereadguard.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if walks := findLoops(parsed); len(walks) > 0 {
			t.Fatalf("%s looks at more than one entry: %v", file, walks)
		}
	}
	for _, remembered := range []int{1_000, 90_000} {
		memory, pod := &staleReadGuard{}, &corev1.Pod{}
		for n := range remembered {
			pod.UID = types.UID(strconv.Itoa(n))
			memory.recordWrite(pod)
		}
		if len(memory.versions.newer) != remembered {
			t.Fatalf("%d of %d are remembered", len(memory.versions.newer), remembered)
		}
		pod.ResourceVersion = "2"
		writes := func() { memory.recordWrite(pod); _ = memory.checkCurrent(pod); memory.recordWrite(pod) }
		if allocated := testing.AllocsPerRun(100, writes); allocated > 0 {
			t.Errorf("with %d writes remembered, another one allocates %v times", remembered, allocated)
		}
	}
}

// findLoops returns the places in a file that could visit many entries at once.
func findLoops(file *ast.File) (loops []string) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.BranchStmt:
			loops = append(loops, fmt.Sprintf("%T", node))
		case *ast.ImportSpec:
			if path := node.Path.Value; path == `"maps"` || path == `"slices"` || path == `"sort"` {
				loops = append(loops, path)
			}
		case *ast.CallExpr:
			if called, named := node.Fun.(*ast.Ident); named && (called.Name == "clear" || called.Name == "copy") {
				loops = append(loops, called.Name)
			}
		}
		return true
	})
	return loops
}

// The same in time: see ns/op.
func BenchmarkStaleReadGuard(b *testing.B) {
	for _, size := range []int{1_000, 90_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			guard, pod := &staleReadGuard{}, &corev1.Pod{}
			for n := range size {
				pod.UID = types.UID(strconv.Itoa(n))
				guard.recordWrite(pod)
			}
			for b.Loop() {
				guard.recordWrite(pod)
			}
		})
	}
}
