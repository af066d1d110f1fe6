package duty

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
	"github.com/swarm-io/swarm-operator/worker/internal/mount"
)

// A step shows a file, and lets time pass.
type step struct {
	kind  string
	jobs  string
	floor int64 // ahead of the file
	pause time.Duration
}

var (
	names   = []string{"a", "b", "c", "d", "e"}
	lengths = []time.Duration{0, 0, time.Millisecond, time.Second, 20 * time.Second}
)

func steps(t *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			kind:  rapid.SampledFrom([]string{"next", "next", "next", "broken", "gone", "older"}).Draw(t, "kind"),
			jobs:  strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID[string]).Draw(t, "jobs"), " "),
			floor: rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(t, "floor"),
			pause: rapid.SampledFrom(lengths).Draw(t, "pause"),
		}
	}), 1, 12).Draw(t, "steps")
}

// For any sequence of files, jobs that are slow or fail, and moments to look: the world finds no invariant broken (see
// Started and Acknowledge), and in the end exactly the jobs of the last good file run.
func TestAnySequenceOfFiles(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		for _, name := range names {
			w.startTakes[name] = rapid.SampledFrom(lengths).Draw(rt, "start takes")
			w.stopTakes[name] = rapid.SampledFrom(lengths).Draw(rt, "stop takes")
			w.startFails[name] = rapid.IntRange(0, 3).Draw(rt, "start fails")
			w.stopFails[name] = rapid.IntRange(0, 3).Draw(rt, "stop fails")
		}
		sequence, leaveEarly := steps(rt), rapid.Bool().Draw(rt, "leave early")
		var wrong string
		synctest.Test(t, func(*testing.T) { wrong = w.play(sequence, leaveEarly) })
		if wrong != "" {
			rt.Fatalf("%s\njournal: %s", wrong, strings.Join(w.log, ", "))
		}
	})
}

// play returns what went wrong. In a bubble an hour passes at once.
func (w *world) play(sequence []step, leaveEarly bool) string {
	w.sights, w.done = make(chan []mount.Sight), make(chan error, 1) // channels belong to the bubble they were made in
	w.run()
	version, floor, last := int64(0), int64(0), ""
	for _, s := range sequence {
		switch s.kind {
		case "next":
			version++
			floor, last = max(floor, version+s.floor-1), s.jobs
			w.show(version, s.jobs, annotation(floor))
		case "older":
			if version > 1 {
				w.sights <- []mount.Sight{file(version-1, s.jobs), annotation(floor)}
			}
		case "broken":
			w.sights <- []mount.Sight{{Content: []byte("version: 3\nworkloads: [")}, annotation(floor)}
		case "gone":
			w.sights <- []mount.Sight{absent, absent}
		}
		time.Sleep(s.pause)
	}
	if !leaveEarly {
		time.Sleep(time.Hour)
		synctest.Wait()
		w.inTheEnd(version, floor, last)
		if version < floor {
			w.show(floor, last, annotation(floor)) // the file catches up
			time.Sleep(time.Hour)
			synctest.Wait()
			w.inTheEnd(floor, floor, last)
		}
	}
	wrong, _ := w.end() // stops may fail to the last, and then it reports that
	return wrong
}

func (w *world) inTheEnd(version, floor int64, last string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.config != version {
		w.complain("acknowledged %d, the last good file is %d", w.config, version)
	}
	for _, job := range names {
		wanted, runs := strings.Contains(last, job), w.runs[job] != nil
		if runs && !wanted || wanted && !runs && version >= floor {
			w.complain("%s: runs %t, wanted %t by %q, version %d, floor %d", job, runs, wanted, last, version, floor)
		}
		if runs && w.runs[job].Err() != nil {
			w.complain("%s runs with a context that has ended", job)
		}
	}
}

func annotation(floor int64) mount.Sight {
	if floor == 0 {
		return mount.Sight{}
	}
	return mount.Sight{Content: strconv.AppendInt(nil, floor, 10)}
}
