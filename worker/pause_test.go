package worker

import (
	"testing"
	"time"
)

func TestNextBackoff(t *testing.T) {
	for _, c := range []struct{ last, ran, want time.Duration }{
		{0, 0, time.Second},
		{time.Second, 0, 2 * time.Second},
		{32 * time.Second, 59 * time.Second, time.Minute},
		{time.Minute, 0, time.Minute},
		{time.Minute, time.Minute, time.Second},
	} {
		if got := nextBackoff(c.last, c.ran); got != c.want {
			t.Errorf("after a pause of %s and %s of running: %s, want %s", c.last, c.ran, got, c.want)
		}
	}
}
