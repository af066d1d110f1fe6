package hostclock

import (
	"testing"
	"time"
)

func TestBootTimeGoesForward(t *testing.T) {
	first := BootTime()
	if second := BootTime(); second < first || first <= 0 {
		t.Errorf("read %v, then %v", first, second)
	}
}

func TestAgeIsTheLargestThatAnyClockKnows(t *testing.T) {
	began := Read()
	for name, c := range map[string]struct {
		monotonic, wall, boot, want time.Duration
	}{
		"nothing has happened":                          {5, 5, 5, 5},
		"suspended":                                     {5, 65, 65, 65},
		"suspended, and the wall clock set back":        {5, 5 - 3600, 65, 65},
		"suspended without the knowledge of the kernel": {5, 65, 5, 65},
		"the wall clock set back":                       {5, -60, 5, 5},
		"the boot clock does not move, as in a bubble":  {5, 5, 0, 5},
	} {
		now := Reading{Monotonic: began.Monotonic.Add(c.monotonic), Wall: began.Wall.Add(c.wall), Boot: began.Boot + c.boot}
		if got := now.Since(began); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestReadingMovesOnAllClocks(t *testing.T) {
	began := Read()
	later := began.Add(time.Hour)
	if later.Since(began) != time.Hour || began.Since(later) != -time.Hour || later.Boot-began.Boot != time.Hour {
		t.Errorf("%+v is an hour after %+v", later, began)
	}
	if began.IsZero() || !(Reading{}).IsZero() {
		t.Error("a moment is taken for none, or none for one")
	}
}
