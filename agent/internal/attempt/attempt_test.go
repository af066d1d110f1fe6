package attempt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

var succeeded = Result{Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED, Value: []byte("{}")}

// startInBubble starts work in a bubble and returns the attempt and where its end will be found.
func startInBubble(work WorkFunc, limits Limits) (*Attempt, <-chan Result) {
	results := make(chan Result, 1)
	a := New(limits, func() {})
	a.Start(work, func(end Result) { results <- end })
	return a, results
}

// stopsOnRequest work ends on request, stubborn work only by force.
func stopsOnRequest(ctx context.Context, _ <-chan struct{}, _ ProgressFunc) Result {
	<-ctx.Done()
	return Result{Outcome: linkv1.Outcome_OUTCOME_FAILED, Reason: "Interrupted"}
}

func stopsWhenKilled(_ context.Context, kill <-chan struct{}, _ ProgressFunc) Result {
	<-kill
	return Result{Outcome: linkv1.Outcome_OUTCOME_FAILED, Reason: "Killed"}
}

func TestProgressNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var report ProgressFunc
		a, _ := startInBubble(func(ctx context.Context, kill <-chan struct{}, r ProgressFunc) Result {
			report = r
			return stopsOnRequest(ctx, kill, r)
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
		a.Stop(StopRequest{Grace: UnlimitedGrace})
	})
}

func TestLimitsOfTimeEndTheWork(t *testing.T) {
	for reason, c := range map[string]struct {
		work   WorkFunc
		limits Limits
		after  time.Duration
	}{
		"it runs too long":             {stopsOnRequest, Limits{RunTimeout: 10 * time.Second, Grace: time.Second}, 10 * time.Second},
		"it is silent for too long":    {stopsOnRequest, Limits{ProgressTimeout: 5 * time.Second, Grace: time.Second}, 5 * time.Second},
		"it is forced after its grace": {stopsWhenKilled, Limits{RunTimeout: 10 * time.Second, Grace: 3 * time.Second}, 13 * time.Second},
		"reports keep it from silence": {reportsProgress(4, 4*time.Second), Limits{ProgressTimeout: 5 * time.Second, Grace: time.Second},
			21 * time.Second},
		"reports do not extend its time": {reportsProgress(9, 4*time.Second),
			Limits{RunTimeout: 10 * time.Second, ProgressTimeout: 5 * time.Second},
			10 * time.Second},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, results := startInBubble(c.work, c.limits)
				end := <-results
				if took := time.Since(start); took != c.after {
					t.Errorf("ended after %s, want %s", took, c.after)
				}
				if end.Outcome != linkv1.Outcome_OUTCOME_FAILED || end.Reason != reasonTimedOut || end.Message == "" {
					t.Errorf("ended with %+v", end)
				}
			})
		})
	}
}

// reportsProgress work reports progress so many times, and then only waits to be stopped.
func reportsProgress(times int, interval time.Duration) WorkFunc {
	return func(ctx context.Context, kill <-chan struct{}, report ProgressFunc) Result {
		for range times {
			select {
			case <-time.After(interval):
				report(1, "")
			case <-ctx.Done():
				return Result{}
			}
		}
		return stopsOnRequest(ctx, kill, report)
	}
}

func TestFirstStopGivesTheReasonAndALaterOneShortensTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, results := startInBubble(stopsWhenKilled, Limits{})
		start := time.Now()
		a.Stop(StopRequest{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: "Draining", Grace: UnlimitedGrace})
		time.Sleep(time.Hour)
		a.Stop(StopRequest{Outcome: linkv1.Outcome_OUTCOME_CANCELLED, Reason: "Cancelled", Grace: 2 * time.Second})
		a.Stop(StopRequest{Outcome: linkv1.Outcome_OUTCOME_CANCELLED, Reason: "Cancelled", Grace: time.Minute})
		end := <-results
		if end.Outcome != linkv1.Outcome_OUTCOME_HANDED_BACK || end.Reason != "Draining" || time.Since(start) != time.Hour+2*time.Second {
			t.Errorf("ended with %+v after %s", end, time.Since(start))
		}
		a.Kill()
		a.Kill() // any number of times
		time.Sleep(2 * time.Minute)
	})
}

func TestResultAfterAStop(t *testing.T) {
	finishes := func(ctx context.Context, _ <-chan struct{}, _ ProgressFunc) Result { <-ctx.Done(); return succeeded }
	for reason, c := range map[string]struct {
		work WorkFunc
		stop StopRequest
		want linkv1.Outcome
	}{
		"finished in time though asked to make room": {finishes, StopRequest{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK},
			linkv1.Outcome_OUTCOME_SUCCEEDED},
		"finished though cancelled": {finishes, StopRequest{Outcome: linkv1.Outcome_OUTCOME_CANCELLED},
			linkv1.Outcome_OUTCOME_CANCELLED},
		"failed when asked to make room": {stopsOnRequest, StopRequest{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK},
			linkv1.Outcome_OUTCOME_HANDED_BACK},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, results := startInBubble(c.work, Limits{})
				a.Stop(c.stop)
				if end := <-results; end.Outcome != c.want {
					t.Errorf("got %v, want %v", end.Outcome, c.want)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// The watchdog kills without a request to stop. That is not a failure of the work.
func TestExpiredWorkIsHandedBack(t *testing.T) {
	for reason, c := range map[string]struct {
		work WorkFunc
		stop *StopRequest
		want linkv1.Outcome
	}{
		"killed":        {stopsWhenKilled, nil, linkv1.Outcome_OUTCOME_HANDED_BACK},
		"asked at last": {stopsOnRequest, nil, linkv1.Outcome_OUTCOME_HANDED_BACK},
		"killed when cancelled": {stopsWhenKilled, &StopRequest{Outcome: linkv1.Outcome_OUTCOME_CANCELLED, Grace: UnlimitedGrace},
			linkv1.Outcome_OUTCOME_CANCELLED},
		"finished at the moment": {func(_ context.Context, kill <-chan struct{}, _ ProgressFunc) Result { <-kill; return succeeded }, nil,
			linkv1.Outcome_OUTCOME_SUCCEEDED},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, results := startInBubble(c.work, Limits{})
				if c.stop != nil {
					a.Stop(*c.stop)
				}
				a.Expire()
				a.Expire()
				end := <-results
				if end.Outcome != c.want || (end.Reason == ReasonLeaseExpired) != (c.stop == nil && c.want == linkv1.Outcome_OUTCOME_HANDED_BACK) {
					t.Errorf("got %+v, want %v", end, c.want)
				}
			})
		})
	}
}
