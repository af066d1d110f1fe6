package split

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

var (
	noon   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tenOf4 = Policy{MinOnDemand: 4, SpotPercent: 100}
)

func podsWithNumbers(numbers ...int) []Pod {
	var pods []Pod
	for n, number := range numbers {
		pods = append(pods, Pod{Name: fmt.Sprintf("p-%d", n), Number: number, AssignedClass: OnDemand, NodeClass: OnDemand, Phase: Ready,
			Created: noon})
	}
	return pods
}

func TestTenPodsInSequenceKeepTheFloor(t *testing.T) {
	numbers := NewNumbers(time.Minute)
	var pods []Pod
	for n := range 10 {
		number := numbers.Reserve(fmt.Sprint(n), noon)
		pods = append(pods, Pod{Name: fmt.Sprint(n), Number: number, AssignedClass: Of(tenOf4, number), NodeClass: Of(tenOf4, number),
			Phase: Ready})
		numbers.SetPods(tenOf4, 10, pods)
		if got, want := currentDistribution(listLivePods(pods)), DesiredDistribution(tenOf4, n+1); got != want {
			t.Fatalf("after %d pods %v, want %v", n+1, got, want)
		}
	}
}

func TestBurstOf50InAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy, numbers := drawPolicy(t), NewNumbers(time.Minute)
		requests := make([]int, 50)
		for n := range requests {
			requests[n] = n
		}
		order := rapid.Permutation(requests).Draw(t, "order")
		pods, watched := make([]Pod, 0, 50), 0
		for n, request := range order {
			number := numbers.Reserve(fmt.Sprint(request), noon)
			if again := numbers.Reserve(fmt.Sprint(request), noon); again != number {
				t.Fatalf("request %d got %d, then %d", request, number, again)
			}
			pods = append(pods, Pod{Name: fmt.Sprint(request), Number: number, AssignedClass: Of(policy, number), NodeClass: Of(policy, number),
				Phase: Ready, Created: noon})
			if rapid.Bool().Draw(t, "seen") {
				watched = rapid.IntRange(watched, n+1).Draw(t, "watched")
				numbers.SetPods(policy, 50, pods[:watched])
			}
		}
		if got, want := currentDistribution(listLivePods(pods)), DesiredDistribution(policy, 50); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
		if decision := Decide(newSnapshot(policy, 50, pods)); len(decision.Moves) > 0 || decision.Status != Balanced {
			t.Fatalf("a burst calls for %v, %s", decision.Moves, decision.Status)
		}
	})
}

func TestDryRunsTakeNoNumber(t *testing.T) {
	numbers := NewNumbers(time.Minute)
	for range 20 {
		if got := numbers.LowestFree(noon); got != 0 {
			t.Fatalf("a dry run moved the lowest number to %d", got)
		}
	}
	if got := numbers.Reserve("real", noon); got != 0 {
		t.Errorf("the first pod got %d", got)
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		reason string
		seen   []Pod
		after  time.Duration
		want   int
	}{
		{"given numbers are held", nil, 0, 2},
		{"a number whose pod never appears is free after a while", nil, time.Minute, 0},
		{"a pod that appeared holds its number for good", podsWithNumbers(0), time.Minute, 1},
		{"the lowest free number fills a gap", podsWithNumbers(0, 1, 3), 0, 2},
		{"a terminating pod holds nothing", []Pod{{Number: 0, Phase: Terminating}, {Number: 1}}, time.Minute, 0},
		{"a pod that came and went between two looks holds nothing", []Pod{{Number: 0, Phase: Terminating, Created: noon}, {Number: 1}}, 0, 0},
		{"a pod that went before is not the one", []Pod{{Number: 0, Phase: Terminating, Created: noon.Add(-time.Hour)}, {Number: 1}}, 0, 2},
		{"pods without a number stand for one", podsWithNumbers(Unnumbered, Unnumbered, 1), time.Minute, 3},
		{"a number beyond the replicas is not given twice", podsWithNumbers(0, 1, 2, 3, 12), time.Minute, 5},
	} {
		t.Run(c.reason, func(t *testing.T) {
			numbers := NewNumbers(time.Minute)
			numbers.Reserve("a", noon)
			numbers.Reserve("b", noon)
			numbers.SetPods(Policy{}, 10, c.seen)
			if got := numbers.Reserve("c", noon.Add(c.after)); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestShortLivedPodFreesItsNumber(t *testing.T) {
	numbers := NewNumbers(time.Minute)
	numbers.Reserve("a", noon)
	numbers.AddPod(Pod{Number: 0, Phase: Pending, Created: noon})
	if _, ok := numbers.ReservedNumber("a", noon); ok || numbers.LowestFree(noon) != 0 {
		t.Error("its number is held though no pod is seen")
	}
	numbers.Reserve("b", noon)
	if number, ok := numbers.ReservedNumber("b", noon); !ok || number != 0 {
		t.Errorf("the next was given %d, %t", number, ok)
	}
	if _, ok := numbers.ReservedNumber("b", noon.Add(time.Minute)); ok {
		t.Error("a number is given though grace is over")
	}
}

// Pods come and go, are seen late or early: as long as none is later than grace, no two have the same number.
func TestNeverTwoPodsWithOneNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy, numbers, now := drawPolicy(t), NewNumbers(time.Minute), noon
		var pods []Pod
		for n := range rapid.IntRange(1, 60).Draw(t, "events") {
			now = now.Add(time.Second / 2)
			switch {
			case len(pods) > 0 && rapid.IntRange(0, 2).Draw(t, "event") == 0:
				pods = slices.Delete(pods, 0, 1)
				numbers.SetPods(policy, 20, pods)
			default:
				number := numbers.Reserve(fmt.Sprint(n), now)
				if slices.ContainsFunc(pods, func(pod Pod) bool { return pod.Number == number }) {
					t.Fatalf("number %d is given twice", number)
				}
				pods = append(pods, Pod{Name: fmt.Sprint(n), Number: number, NodeClass: Of(policy, number), Phase: Ready, Created: now})
			}
		}
	})
}

func TestNumberOfAMissingPodIsTakenOver(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	numbers := NewNumbers(time.Minute)
	numbers.Reserve("first", at)
	numbers.Reserve("second", at.Add(time.Second))
	if number, ok := numbers.TakeOver("third", at.Add(2*time.Second), 3*time.Second); ok {
		t.Errorf("number %d was taken from a pod that is not late", number)
	}
	later := at.Add(10 * time.Second)
	for want, request := range []string{"third", "fourth"} {
		if number, ok := numbers.TakeOver(request, later, 3*time.Second); !ok || number != want {
			t.Errorf("%s got %d, %t", request, number, ok)
		}
	}
	if _, ok := numbers.TakeOver("fifth", later, 3*time.Second); ok {
		t.Error("a number that was just taken again is taken once more")
	}
	if number := numbers.Reserve("third", later); number != 0 {
		t.Errorf("who asks again gets %d", number)
	}
}

func TestOutstandingNumbersAreThoseWhosePodsWereNotSeen(t *testing.T) {
	numbers := NewNumbers(time.Minute)
	for n := range 5 {
		numbers.Reserve(fmt.Sprint(n), noon.Add(time.Duration(n)*time.Second))
	}
	numbers.Reserve("0", noon)
	numbers.SetPods(Policy{}, 5, podsWithNumbers(1, 3))
	if got := numbers.CountReservations(noon.Add(5 * time.Second)); got != 3 {
		t.Errorf("%d outstanding after two pods appeared, want 3", got)
	}
	if got := numbers.CountReservations(noon.Add(time.Minute)); got != 2 {
		t.Errorf("%d outstanding after the first has expired, want 2", got)
	}
	if got := numbers.CountReservations(noon.Add(time.Hour)); got != 0 {
		t.Errorf("%d outstanding after all have expired", got)
	}
}
