package attempt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

var succeeded = End{Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED, Value: []byte("{}")}

// run starts work in a bubble and returns the attempt and where its end will be found.
func run(work Work, limits Limits) (*Attempt, <-chan End) {
	ends := make(chan End, 1)
	a := New(limits, func() {})
	a.Start(work, func(end End) { ends <- end })
	return a, ends
}

// obedient work ends when it is asked to, stubborn work only when it is forced.
func obedient(ctx context.Context, _ <-chan struct{}, _ Report) End {
	<-ctx.Done()
	return End{Outcome: linkv1.Outcome_OUTCOME_FAILED, Reason: "Interrupted"}
}

func stubborn(_ context.Context, kill <-chan struct{}, _ Report) End {
	<-kill
	return End{Outcome: linkv1.Outcome_OUTCOME_FAILED, Reason: "Killed"}
}

func TestProgressNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var report Report
		a, _ := run(func(ctx context.Context, kill <-chan struct{}, r Report) End {
			report = r
			return obedient(ctx, kill, r)
		}, Limits{})
		synctest.Wait()
		if _, _, isNew := a.Progress(); isNew {
			t.Error("there is progress before anything was reported")
		}
		for _, c := range []struct{ reported, want int32 }{{30, 30}, {10, 30}, {-1, 30}, {200, 100}, {50, 100}} {
			report(c.reported, "step")
			if percent, message, isNew := a.Progress(); percent != c.want || message != "step" || !isNew {
				t.Errorf("after a report of %d: %d %q %v, want %d", c.reported, percent, message, isNew, c.want)
			}
		}
		if _, _, isNew := a.Progress(); isNew {
			t.Error("the same progress is new twice")
		}
		a.Stop(Stop{Grace: Forever})
	})
}

func TestLimitsOfTimeEndTheWork(t *testing.T) {
	for reason, c := range map[string]struct {
		work   Work
		limits Limits
		after  time.Duration
	}{
		"it runs too long":             {obedient, Limits{Run: 10 * time.Second, Grace: time.Second}, 10 * time.Second},
		"it is silent for too long":    {obedient, Limits{Silence: 5 * time.Second, Grace: time.Second}, 5 * time.Second},
		"it is forced after its grace": {stubborn, Limits{Run: 10 * time.Second, Grace: 3 * time.Second}, 13 * time.Second},
		"reports keep it from silence": {talkative(4, 4*time.Second), Limits{Silence: 5 * time.Second, Grace: time.Second}, 21 * time.Second},
		"reports do not extend its time": {talkative(9, 4*time.Second), Limits{Run: 10 * time.Second, Silence: 5 * time.Second},
			10 * time.Second},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, ends := run(c.work, c.limits)
				end := <-ends
				if took := time.Since(began); took != c.after {
					t.Errorf("ended after %s, want %s", took, c.after)
				}
				if end.Outcome != linkv1.Outcome_OUTCOME_FAILED || end.Reason != reasonTimedOut || end.Message == "" {
					t.Errorf("ended with %+v", end)
				}
			})
		})
	}
}

// talkative work reports progress so many times, and then only waits to be stopped.
func talkative(times int, every time.Duration) Work {
	return func(ctx context.Context, kill <-chan struct{}, report Report) End {
		for range times {
			select {
			case <-time.After(every):
				report(1, "")
			case <-ctx.Done():
				return End{}
			}
		}
		return obedient(ctx, kill, report)
	}
}

func TestFirstStopIsTheReasonAndALaterOneShortensTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, ends := run(stubborn, Limits{})
		began := time.Now()
		a.Stop(Stop{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: "Draining", Grace: Forever})
		time.Sleep(time.Hour)
		a.Stop(Stop{Outcome: linkv1.Outcome_OUTCOME_CANCELLED, Reason: "Cancelled", Grace: 2 * time.Second})
		a.Stop(Stop{Outcome: linkv1.Outcome_OUTCOME_CANCELLED, Reason: "Cancelled", Grace: time.Minute})
		end := <-ends
		if end.Outcome != linkv1.Outcome_OUTCOME_HANDED_BACK || end.Reason != "Draining" || time.Since(began) != time.Hour+2*time.Second {
			t.Errorf("ended with %+v after %s", end, time.Since(began))
		}
		a.Kill()
		a.Kill() // any number of times
		time.Sleep(2 * time.Minute)
	})
}

func TestWhatAStopMakesOfAResult(t *testing.T) {
	finishing := func(ctx context.Context, _ <-chan struct{}, _ Report) End { <-ctx.Done(); return succeeded }
	for reason, c := range map[string]struct {
		work Work
		stop Stop
		want linkv1.Outcome
	}{
		"finished in time though asked to make room": {finishing, Stop{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK},
			linkv1.Outcome_OUTCOME_SUCCEEDED},
		"finished though cancelled": {finishing, Stop{Outcome: linkv1.Outcome_OUTCOME_CANCELLED},
			linkv1.Outcome_OUTCOME_CANCELLED},
		"failed when asked to make room": {obedient, Stop{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK},
			linkv1.Outcome_OUTCOME_HANDED_BACK},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, ends := run(c.work, Limits{})
				a.Stop(c.stop)
				if end := <-ends; end.Outcome != c.want {
					t.Errorf("got %v, want %v", end.Outcome, c.want)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// The watchdog kills without asking first. That is no failure of the work.
func TestExpiredWorkIsHandedBack(t *testing.T) {
	for reason, c := range map[string]struct {
		work Work
		stop *Stop
		want linkv1.Outcome
	}{
		"killed":                 {stubborn, nil, linkv1.Outcome_OUTCOME_HANDED_BACK},
		"asked at last":          {obedient, nil, linkv1.Outcome_OUTCOME_HANDED_BACK},
		"killed when cancelled":  {stubborn, &Stop{Outcome: linkv1.Outcome_OUTCOME_CANCELLED, Grace: Forever}, linkv1.Outcome_OUTCOME_CANCELLED},
		"finished at the moment": {func(_ context.Context, kill <-chan struct{}, _ Report) End { <-kill; return succeeded }, nil, linkv1.Outcome_OUTCOME_SUCCEEDED},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, ends := run(c.work, Limits{})
				if c.stop != nil {
					a.Stop(*c.stop)
				}
				a.Expire()
				a.Expire()
				end := <-ends
				if end.Outcome != c.want || (end.Reason == ReasonLeaseExpired) != (c.stop == nil && c.want == linkv1.Outcome_OUTCOME_HANDED_BACK) {
					t.Errorf("got %+v, want %v", end, c.want)
				}
			})
		})
	}
}
