package kit

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestRecentKeepsEachEntryAtLeastAsLongAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recent := Recent[string, int]{Keep: time.Minute}
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

func TestRecentForgetsAllAfterALongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recent := Recent[string, int]{Keep: time.Minute}
		recent.Put("a", 1)
		time.Sleep(2 * time.Minute)
		if _, known := recent.Get("a"); known || len(recent.older) > 0 {
			t.Error("still known after twice the time")
		}
	})
}

func TestRecentPutAndDeleteAcrossGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recent := Recent[string, int]{Keep: time.Minute}
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

// What it costs to remember a write must not depend on how many were made before: see ns/op.
func BenchmarkMemoryOfWrites(b *testing.B) {
	for _, size := range []int{1_000, 90_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			memory, pod := &written{}, &corev1.Pod{}
			for n := range size {
				pod.UID = types.UID(strconv.Itoa(n))
				memory.note(pod)
			}
			for b.Loop() {
				memory.note(pod)
			}
		})
	}
}
