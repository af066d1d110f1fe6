package assign

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/internal/testkit/golden"
)

// The documented listing: 14 and 13, in list order.
func TestP03_Golden27OverTwoWorkers(t *testing.T) {
	content, err := os.ReadFile("testdata/pool-27-expected.yml")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Workloads map[string]struct{ Jobs []string }
	}
	if err := yaml.Unmarshal(content, &want); err != nil {
		t.Fatal(err)
	}
	workers := []Worker{{Name: "swarm-worker-0", Ordinal: 0}, {Name: "swarm-worker-1", Ordinal: 1}}
	for _, strategy := range []Strategy{Sticky, Contiguous, ""} {
		shares := Plan(Input{Jobs: newTestList(t, golden27(t)...), Workers: workers, Strategy: strategy}).Next.Shares()
		if len(shares) != 2 || len(want.Workloads) != 2 {
			t.Fatalf("%s: %v", strategy, shares)
		}
		for _, share := range shares {
			if !slices.Equal(share.Jobs, want.Workloads[share.Worker].Jobs) {
				t.Errorf("%s: %v", strategy, share)
			}
		}
	}
}

func TestP02_ThousandRunsGiveTheSameAnswer(t *testing.T) {
	for _, strategy := range []Strategy{Sticky, Contiguous, Hashed} {
		var first []Share
		for n := range 1000 {
			got := Plan(Input{Jobs: newTestList(t, golden27(t)...), Workers: readyWorkers(5), Strategy: strategy}).Next.Shares()
			if n == 0 {
				first = got
			}
			if !slices.EqualFunc(got, first, equalShares) {
				t.Fatalf("%s, run %d: %v, before: %v", strategy, n, got, first)
			}
		}
	}
}

func equalShares(a, b Share) bool {
	return a.Worker == b.Worker && a.Ordinal == b.Ordinal && slices.Equal(a.Jobs, b.Jobs)
}

// What Hashed computes is a promise across versions: if this test fails, increment Algorithm and update the listing.
func TestHashedIsStableAcrossVersions(t *testing.T) {
	in := Input{Jobs: newTestList(t, golden27(t)...), Workers: readyWorkers(3), Strategy: Hashed}
	golden.Compare(t, "testdata/hashed-27-over-3.txt", formatDecision(Plan(in)))
}

func TestUnassignedJobsHaveReasons(t *testing.T) {
	lone := func(job Job, jobs ...Job) []Job { return append([]Job{job}, jobs...) }
	small := Worker{Name: "w-0", Capacity: 10}
	for _, c := range []struct {
		reason  string
		jobs    []Job
		workers []Worker
		want    string
	}{
		{"no workers", equalJobs(1), nil, "the pool has no workers"},
		{"all leave", equalJobs(1), []Worker{{Name: "w-0", State: Leaving}, {Name: "w-1", Ordinal: 1, State: NotReady}},
			"none of the 2 workers can take a job: 1 leaving, 1 not ready"},
		{"a job is too heavy", lone(Job{Name: "big", Weight: 11}), []Worker{small},
			"it weighs 11, and no worker has that much room left: 0 of 10 are taken on the 1 worker that share jobs"},
		{"the one worker is left to shared jobs", lone(Job{Name: "own", Weight: 1, Dedicated: true}, equalJobs(1)...), readyWorkers(1),
			"it needs a worker of its own: there are 1 dedicated job and 1 worker, one of which is left to the shared jobs"},
		{"dedicated and too heavy", lone(Job{Name: "own", Weight: 12, Dedicated: true}), []Worker{small},
			"it weighs 12, and no worker has a capacity above 10"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			in := Input{Jobs: newTestList(t, c.jobs...), Workers: c.workers}
			decision := Plan(in)
			requireValid(t, in, decision)
			if len(decision.Unassigned) != 1 || decision.Unassigned[0].Reason != c.want {
				t.Errorf("got %v", decision.Unassigned)
			}
		})
	}
}

func TestDedicatedJobsAreAlone(t *testing.T) {
	jobs := append(equalJobs(6), Job{Name: "own-a", Weight: 1, Dedicated: true}, Job{Name: "own-b", Weight: 1, Dedicated: true})
	in := Input{Jobs: newTestList(t, jobs...), Workers: readyWorkers(4)}
	first := Plan(in)
	requireValid(t, in, first)
	if got := jobCounts(first.Next); !slices.Equal(got, []int{3, 3, 1, 1}) {
		t.Fatalf("sizes %v", got)
	}
	if a, _ := first.Next.ShareOf(3); !slices.Equal(a.Jobs, []string{"own-a"}) {
		t.Errorf("the first dedicated job takes the highest ordinal: %v", a)
	}
	in.Previous, in.Workers = first.Next, readyWorkers(6)
	for _, move := range Plan(in).Moves() {
		if strings.HasPrefix(move.Job, "own") {
			t.Errorf("a dedicated job keeps its worker: %v", move)
		}
	}
}

func TestNotReadyWorkerKeepsItsJobsAndTakesNone(t *testing.T) {
	in := Input{Jobs: newTestList(t, equalJobs(6)...), Workers: readyWorkers(3)}
	in.Previous = Plan(in).Next
	in.Jobs = newTestList(t, equalJobs(12)...)
	in.Workers[1].State = NotReady
	in.Workers = append(in.Workers, Worker{Name: "w-3", Ordinal: 3, State: NotReady})
	decision := Plan(in)
	requireValid(t, in, decision)
	if got := jobCounts(decision.Next); !slices.Equal(got, []int{5, 2, 5}) || countRelocated(decision) > 0 {
		t.Errorf("sizes %v, moves %v", got, decision.Moves())
	}
}

func TestAnotherAlgorithmIsRefused(t *testing.T) {
	stored := Restore([]Share{{Worker: "w-0", Jobs: []string{"job-0", "job-1"}}, {Worker: "w-1", Ordinal: 1}}, Algorithm+1)
	in := Input{Jobs: newTestList(t, equalJobs(2)...), Workers: readyWorkers(2), Previous: stored, Strategy: Hashed}
	if refused := Plan(in); refused.RefusalReason == "" || refused.Next != stored || len(refused.Moves()) > 0 {
		t.Errorf("not refused: %v", refused)
	}
	in.Rehash = true
	if rehashed := Plan(in); rehashed.RefusalReason != "" || rehashed.Next.Algorithm() != Algorithm {
		t.Errorf("refused although asked for: %v", rehashed)
	}
}

func TestListsNameTheirProblems(t *testing.T) {
	good := equalJobs(3)
	bad := slices.Concat(good, []Job{{Name: "", Weight: 1}, {Name: "job-1", Weight: 1}, {Name: "light"}, {Name: "last", Weight: 1}})
	for _, make := range []func([]Job) (*JobList, []Problem){NewJobList, newTestList(t, good...).Next} {
		list, problems := make(slices.Clone(bad))
		if list.Len() != 4 || len(problems) != 3 || problems[1].Index != 4 || problems[1].Reason != `job "job-1" is in the list twice` {
			t.Errorf("%d jobs, problems %v", list.Len(), problems)
		}
	}
}
