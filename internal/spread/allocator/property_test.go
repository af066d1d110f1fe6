package allocator

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

// A scalingStep is the next step of a ReplicaSet's controller: it scales to a number of replicas, after some pods were lost.
type scalingStep struct {
	replicas int
	lost     []int         // numbers
	lag      time.Duration // until the cache shows the move
	dry      int           // dry runs in between
	pause    time.Duration
}

// A fakeReplicaSet is a ReplicaSet, as its controller knows it. The cache lags behind.
type fakeReplicaSet struct {
	*fakeCache
	allocator *Allocator
	policy    split.Policy
	pods      map[string]Placement
	created   int
	last      time.Time // when the cache has caught up
}

// updateAfter schedules an update of the cache. It lags, but keeps the order.
func (f *fakeReplicaSet) updateAfter(lag time.Duration, sees func()) {
	if at := time.Now().Add(lag); at.After(f.last) {
		f.last = at
	}
	f.last = f.last.Add(time.Nanosecond)
	time.AfterFunc(time.Until(f.last), sees)
}

// Any sequence of scaling and lost pods, with a lagging cache: whenever the ReplicaSet has as many pods as it wants, they have the
// numbers from 0 on, each once, and so the wanted mix.
func TestAnySequenceKeepsTheMix(t *testing.T) {
	lags := []time.Duration{0, time.Millisecond, 40 * time.Millisecond, 200 * time.Millisecond}
	rapid.Check(t, func(rt *rapid.T) {
		policy := split.Policy{MinOnDemand: rapid.IntRange(0, 6).Draw(rt, "floor"), SpotPercent: rapid.IntRange(0, 100).Draw(rt, "share")}
		moves := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) scalingStep {
			return scalingStep{
				replicas: rapid.IntRange(0, 12).Draw(t, "replicas"), lost: rapid.SliceOfN(rapid.IntRange(0, 12), 0, 4).Draw(t, "lost"),
				lag: rapid.SampledFrom(lags).Draw(t, "lag"), dry: rapid.IntRange(0, 3).Draw(t, "dry"),
				pause: rapid.SampledFrom([]time.Duration{0, time.Millisecond, 20 * time.Second, time.Hour}).Draw(t, "pause"),
			}
		}), 1, 12).Draw(rt, "moves")
		var wrong string
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCache(t, deployment(0, spreadAnnotations(policy)))
			f := &fakeReplicaSet{fakeCache: fake, allocator: New(fake, fake.listPods, testSettings(), testRefusals()), policy: policy,
				pods: map[string]Placement{}}
			fake.onPod = f.allocator.observePod
			for n, step := range moves {
				if wrong = f.apply(t, step); wrong != "" {
					wrong = fmt.Sprintf("move %d: %s", n, wrong)
					break
				}
			}
			time.Sleep(time.Second) // updates that the cache does not have yet
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

func (f *fakeReplicaSet) apply(t *testing.T, step scalingStep) string {
	f.updateAfter(step.lag, func() { f.set(deployment(step.replicas, spreadAnnotations(f.policy))) })
	for name, pod := range maps.Clone(f.pods) {
		// When it shrinks, the highest numbers go: this is the purpose of the deletion cost.
		if pod.Number >= step.replicas || slices.Contains(step.lost, pod.Number) {
			delete(f.pods, name)
			f.updateAfter(step.lag, func() { f.deletePods(name) })
		}
	}
	for range step.dry {
		if _, err := f.allocator.Place(t.Context(), Request{Workload: web, TemplateHash: "abc", UID: "dry", DryRun: true}); err != nil {
			return err.Error()
		}
	}
	if wrong := f.createMissing(t, step); wrong != "" {
		return wrong
	}
	time.Sleep(step.pause)
	return ""
}

// createMissing creates the missing pods, all at once.
func (f *fakeReplicaSet) createMissing(t *testing.T, step scalingStep) string {
	missing := step.replicas - len(f.pods)
	answers := make(chan Placement)
	for n := range missing {
		request := fmt.Sprint(f.created + n)
		go func() {
			answer, _ := f.allocator.Place(t.Context(), requestFor(request))
			answers <- answer
		}()
	}
	for range missing {
		answer, name := <-answers, fmt.Sprint(f.created)
		f.created++
		f.pods[name] = answer
		pod := newPlacedPod(name, "abc", answer.Number, answer.Class)
		pod.CreationTimestamp.Time = time.Now()
		f.updateAfter(step.lag, func() { f.set(pod) })
	}
	if got, want := distributionOf(f.pods), split.DesiredDistribution(f.policy, step.replicas); got != want {
		return fmt.Sprintf("%v, want %v: %v", got, want, f.pods)
	}
	if numbers := slices.Sorted(f.numbers()); len(slices.Compact(numbers)) != step.replicas {
		return fmt.Sprintf("two pods with one number: %v", f.pods)
	}
	return ""
}

func (f *fakeReplicaSet) numbers() func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, pod := range f.pods {
			if !yield(pod.Number) {
				return
			}
		}
	}
}
