package window

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Limits of one text: any user may write an annotation.
const (
	maxBytes    = 1000
	maxWindows  = 16
	maxDuration = 7 * 24 * time.Hour
)

// syntaxHint describes how to write a window.
const syntaxHint = `write "<minute> <hour> <day> <month> <weekday> for <duration>", such as "0 2 * * 6 for 4h"`

// zonePrefix is the prefix of the time zone of a window. The default is UTC.
const zonePrefix = "CRON_TZ="

// Parse reads windows separated by semicolons. An empty or blank text means always open.
func Parse(text string) (Windows, error) {
	if strings.TrimSpace(text) == "" {
		return Windows{}, nil
	}
	if len(text) > maxBytes {
		return Windows{}, fmt.Errorf("the windows are %d characters: write at most %d", len(text), maxBytes)
	}
	parts := strings.Split(text, ";")
	if len(parts) > maxWindows {
		return Windows{}, fmt.Errorf("%d windows: write at most %d", len(parts), maxWindows)
	}
	var windows Windows
	for _, part := range parts {
		window, err := parseWindow(strings.Fields(part))
		if err != nil {
			return Windows{}, fmt.Errorf("window %s: %w", quote(strings.TrimSpace(part)), err)
		}
		windows.windows = append(windows.windows, window)
	}
	return windows, nil
}

func parseWindow(words []string) (recurringWindow, error) {
	window := recurringWindow{text: strings.Join(words, " ")}
	zone, cronWords, err := parseZone(words)
	if err != nil {
		return recurringWindow{}, err
	}
	const fields = 5
	if len(cronWords) != fields+2 || cronWords[fields] != "for" || strings.Contains(strings.Join(cronWords, ""), "=") {
		return recurringWindow{}, errors.New(syntaxHint)
	}
	if window.duration, err = parseDuration(cronWords[fields+1]); err != nil {
		return recurringWindow{}, err
	}
	window.schedule, err = parseCron(strings.Join(cronWords[:fields], " "), zone)
	return window, err
}

// parseZone takes the time zone from the front. The cron package would too, but it panics if nothing follows.
func parseZone(words []string) (*time.Location, []string, error) {
	if len(words) == 0 || !strings.HasPrefix(words[0], zonePrefix) {
		return time.UTC, words, nil
	}
	name := strings.TrimPrefix(words[0], zonePrefix)
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" { // Local would depend on where the operator runs
		return nil, nil, fmt.Errorf("%s is no time zone: write one such as %sEurope/Zurich", quote(name), zonePrefix)
	}
	return zone, words[1:], nil
}

func parseDuration(text string) (time.Duration, error) {
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 || duration > maxDuration {
		return 0, fmt.Errorf("%s is no duration that a window can have: write one of up to %d hours, such as 90m or 4h", quote(text),
			maxDuration/time.Hour)
	}
	return duration, nil
}

func parseCron(text string, zone *time.Location) (*cron.SpecSchedule, error) {
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", quoteMessage(err.Error()), syntaxHint)
	}
	schedule, usual := parsed.(*cron.SpecSchedule)
	if !usual || !hasAllFields(schedule) {
		return nil, errors.New("a field has no value: " + syntaxHint)
	}
	schedule.Location = zone
	// Any leap year will do: a date that it does not have never occurs.
	if schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("that day never comes: write one that does, such as 0 2 1 * *")
	}
	return schedule, nil
}

// hasAllFields reports whether every field has a value. A comma alone reads as none, and the search for it would cover five years of
// minutes.
func hasAllFields(schedule *cron.SpecSchedule) bool {
	return !slices.Contains([]uint64{schedule.Minute, schedule.Hour, schedule.Dom, schedule.Month, schedule.Dow}, 0)
}

// quote makes text from any user safe for a status message.
func quote(text string) string {
	const enough = 60
	if len(text) > enough {
		text = text[:enough] + "..."
	}
	return strconv.QuoteToASCII(text)
}

// quoteMessage does the same for a message that contains such text.
func quoteMessage(message string) string { return strings.Trim(quote(message), `"`) }
