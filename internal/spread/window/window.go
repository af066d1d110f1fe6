// Package window computes when users allow their pods to be disturbed: windows of time that a cron expression opens and a duration
// closes, such as "0 2 * * 6 for 4h; CRON_TZ=Europe/Zurich 0 3 * * * for 1h".
//
// It promises that Open does not change before Next, that the output of String is read back as the same windows, and that both are fast
// for any input. It never reads the clock.
package window

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Windows are the windows of one text. The zero value has none and is always open.
type Windows struct{ windows []recurringWindow }

// recurringWindow is a recurring window.
type recurringWindow struct {
	text     string
	schedule *cron.SpecSchedule
	duration time.Duration
}

// String returns the text of the windows with single blanks, "" if always open.
func (w Windows) String() string {
	texts := make([]string, len(w.windows))
	for n, window := range w.windows {
		texts[n] = window.text
	}
	return strings.Join(texts, "; ")
}

// Open reports whether a moment is within any of the windows. The start of a window is included, its end is not.
func (w Windows) Open(at time.Time) bool {
	_, covered := w.endOf(at, make([]time.Time, len(w.windows)))
	return covered || len(w.windows) == 0
}

// Next returns the next moment at which Open changes, zero for never. For windows that follow each other without a gap for very long, the
// search is limited: it then returns a moment up to which they certainly last.
func (w Windows) Next(t time.Time) time.Time {
	starts := make([]time.Time, len(w.windows))
	end, isOpen := w.endOf(t, starts)
	if !isOpen {
		return w.nextStart(t)
	}
	const far = 1000
	for range far {
		later, isOpen := w.endOf(end, starts)
		if !isOpen {
			break
		}
		end = later
	}
	return end
}

// nextStart returns when the next window opens, zero for never.
func (w Windows) nextStart(t time.Time) time.Time {
	var earliest time.Time
	for _, window := range w.windows {
		next := window.schedule.Next(t.UTC())
		if !next.IsZero() && (earliest.IsZero() || next.Before(earliest)) {
			earliest = next
		}
	}
	return earliest
}

// endOf returns until when the windows that include the given moment last, and whether there are any. Callers keep begun between calls,
// which must be in order of time, because rare dates take long to find.
func (w Windows) endOf(t time.Time, starts []time.Time) (time.Time, bool) {
	var latest time.Time
	for n, window := range w.windows {
		if since := t.UTC().Add(-window.duration); !starts[n].After(since) {
			starts[n] = window.nextStartAfter(since)
		}
		if until := starts[n].Add(window.duration); !starts[n].After(t) && until.After(latest) {
			latest = until
		}
	}
	return latest, !latest.IsZero()
}

// nextStartAfter returns when the window first begins after a moment, or a time far enough in the future not to matter.
func (w recurringWindow) nextStartAfter(t time.Time) time.Time {
	if next := w.schedule.Next(t); !next.IsZero() {
		return next
	}
	return t.AddDate(5, 0, 0)
}
