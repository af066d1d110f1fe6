// Package window tells when people allow their pods to be disturbed: windows of time that a cron expression opens and a duration
// closes, such as "0 2 * * 6 for 4h; CRON_TZ=Europe/Zurich 0 3 * * * for 1h".
//
// It promises that Open stays as it is until Next, that what String gives is read back as the same windows, and that neither takes
// long, whatever somebody has written. It never looks at the clock.
package window

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Windows are those in one text. Without any it is always open, which is the zero value.
type Windows struct{ all []one }

// one is a window that comes again and again.
type one struct {
	text   string
	begins *cron.SpecSchedule
	lasts  time.Duration
}

// String is the text that the windows were read from, with single blanks; "" when it is always open.
func (w Windows) String() string {
	texts := make([]string, len(w.all))
	for n, window := range w.all {
		texts[n] = window.text
	}
	return strings.Join(texts, "; ")
}

// Open tells whether a moment is within any of the windows. A window's first moment is, its last is not.
func (w Windows) Open(at time.Time) bool {
	_, covered := w.end(at, make([]time.Time, len(w.all)))
	return covered || len(w.all) == 0
}

// Next is the next moment at which Open changes, zero for never. Windows that follow each other without a gap for very long are looked
// at only so far: then it is a moment up to which they surely do.
func (w Windows) Next(at time.Time) time.Time {
	begun := make([]time.Time, len(w.all))
	end, covered := w.end(at, begun)
	if !covered {
		return w.beginning(at)
	}
	const far = 1000
	for range far {
		later, covered := w.end(end, begun)
		if !covered {
			break
		}
		end = later
	}
	return end
}

// beginning is when the next window opens, zero for never.
func (w Windows) beginning(at time.Time) time.Time {
	var first time.Time
	for _, window := range w.all {
		next := window.begins.Next(at.UTC())
		if !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first
}

// end is a moment later than the one given up to which windows that cover that one last, and whether there is any. When each of them
// begins is kept from one call to the next, for moments that only grow: a day that comes seldom is long to find.
func (w Windows) end(at time.Time, begun []time.Time) (time.Time, bool) {
	var last time.Time
	for n, window := range w.all {
		if since := at.UTC().Add(-window.lasts); !begun[n].After(since) {
			begun[n] = window.after(since)
		}
		if until := begun[n].Add(window.lasts); !begun[n].After(at) && until.After(last) {
			last = until
		}
	}
	return last, !last.IsZero()
}

// after is when the window first begins after a moment, or a time so far away that it does not matter.
func (o one) after(moment time.Time) time.Time {
	if next := o.begins.Next(moment); !next.IsZero() {
		return next
	}
	return moment.AddDate(5, 0, 0)
}
