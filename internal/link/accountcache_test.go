package link

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A listed pod is admitted without a review only if its service account was vouched for.
func TestListedPodOfAnUnknownAccountIsNotAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		tokens, to := c.tokens(t, 2, oneAccount), c.authenticator()
		if err := to.podCache.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.delay = 5 * time.Second // the list stays trusted for longer
		go func() { _, _ = to.Authenticate(t.Context(), tokens[0]) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if identity, err := to.Authenticate(ctx, tokens[1]); err == nil {
			t.Errorf("let in as %v while its service account is being checked", identity)
		}
		time.Sleep(time.Minute)
	})
}

func TestFirstTokenOfAnAccountIsReviewedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		if _, err := c.authenticator().Authenticate(t.Context(), c.token(t, 1, "agents")); err != nil {
			t.Fatal(err)
		}
		if reviews, lists := c.counts(); reviews != 1 || lists != 0 {
			t.Errorf("%d reviews and %d lists", reviews, lists)
		}
	})
}

// An answer that proves nothing must not look like a proof.
func TestKeysThatCannotBeFetchedAreAnError(t *testing.T) {
	c := newFakeCluster()
	to := NewTokenAuthenticator(TokenOptions{
		Reviews: c, Pods: c.listPods, IsClockReliable: func() bool { return true },
		Documents: func(context.Context, string) ([]byte, error) { return nil, context.DeadlineExceeded },
	})
	if err := to.Prepare(t.Context()); err == nil {
		t.Error("no error")
	}
}
