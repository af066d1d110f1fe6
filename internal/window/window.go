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
type Windows struct{ all []one }

// one is a recurring window.
type one struct {
	text   string
	begins *cron.SpecSchedule
	lasts  time.Duration
}

// String returns the text of the windows with single blanks, "" if always open.
func (w Windows) String() string {
	texts := make([]string, len(w.all))
	for n, window := range w.all {
		texts[n] = window.text
	}
	return strings.Join(texts, "; ")
}

// Open reports whether a moment is within any of the windows. The start of a window is included, its end is not.
func (w Windows) Open(at time.Time) bool {
	_, covered := w.end(at, make([]time.Time, len(w.all)))
	return covered || len(w.all) == 0
}

// Next returns the next moment at which Open changes, zero for never. For windows that follow each other without a gap for very long, the
// search is limited: it then returns a moment up to which they certainly last.
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

// beginning returns when the next window opens, zero for never.
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

// end returns until when the windows that include the given moment last, and whether there are any. Callers keep begun between calls,
// which must be in order of time, because rare dates take long to find.
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

// after returns when the window first begins after a moment, or a time far enough in the future not to matter.
func (o one) after(moment time.Time) time.Time {
	if next := o.begins.Next(moment); !next.IsZero() {
		return next
	}
	return moment.AddDate(5, 0, 0)
}
