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
	mostBytes   = 1000
	mostWindows = 16
	longest     = 7 * 24 * time.Hour
)

// form describes how to write a window.
const form = `write "<minute> <hour> <day> <month> <weekday> for <duration>", such as "0 2 * * 6 for 4h"`

// zoned is the prefix of the time zone of a window. The default is UTC.
const zoned = "CRON_TZ="

// Parse reads windows separated by semicolons. An empty or blank text means always open.
func Parse(text string) (Windows, error) {
	if strings.TrimSpace(text) == "" {
		return Windows{}, nil
	}
	if len(text) > mostBytes {
		return Windows{}, fmt.Errorf("the windows are %d characters: write at most %d", len(text), mostBytes)
	}
	parts := strings.Split(text, ";")
	if len(parts) > mostWindows {
		return Windows{}, fmt.Errorf("%d windows: write at most %d", len(parts), mostWindows)
	}
	var read Windows
	for _, part := range parts {
		window, err := parseOne(strings.Fields(part))
		if err != nil {
			return Windows{}, fmt.Errorf("window %s: %w", quoted(strings.TrimSpace(part)), err)
		}
		read.all = append(read.all, window)
	}
	return read, nil
}

func parseOne(words []string) (one, error) {
	window := one{text: strings.Join(words, " ")}
	zone, cronWords, err := parseZone(words)
	if err != nil {
		return one{}, err
	}
	const fields = 5
	if len(cronWords) != fields+2 || cronWords[fields] != "for" || strings.Contains(strings.Join(cronWords, ""), "=") {
		return one{}, errors.New(form)
	}
	if window.lasts, err = parseDuration(cronWords[fields+1]); err != nil {
		return one{}, err
	}
	window.begins, err = parseCron(strings.Join(cronWords[:fields], " "), zone)
	return window, err
}

// parseZone takes the time zone from the front. The cron package would too, but it panics if nothing follows.
func parseZone(words []string) (*time.Location, []string, error) {
	if len(words) == 0 || !strings.HasPrefix(words[0], zoned) {
		return time.UTC, words, nil
	}
	name := strings.TrimPrefix(words[0], zoned)
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" { // Local would depend on where the operator runs
		return nil, nil, fmt.Errorf("%s is no time zone: write one such as %sEurope/Zurich", quoted(name), zoned)
	}
	return zone, words[1:], nil
}

func parseDuration(text string) (time.Duration, error) {
	lasts, err := time.ParseDuration(text)
	if err != nil || lasts <= 0 || lasts > longest {
		return 0, fmt.Errorf("%s is no duration that a window can have: write one of up to %d hours, such as 90m or 4h", quoted(text), longest/time.Hour)
	}
	return lasts, nil
}

func parseCron(text string, zone *time.Location) (*cron.SpecSchedule, error) {
	read, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", printable(err.Error()), form)
	}
	schedule, usual := read.(*cron.SpecSchedule)
	if !usual || !whole(schedule) {
		return nil, errors.New("a field has no value: " + form)
	}
	schedule.Location = zone
	// Any leap year will do: a date that it does not have never occurs.
	if schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("that day never comes: write one that does, such as 0 2 1 * *")
	}
	return schedule, nil
}

// whole reports whether every field has a value. A comma alone reads as none, and the search for it would cover five years of minutes.
func whole(schedule *cron.SpecSchedule) bool {
	return !slices.Contains([]uint64{schedule.Minute, schedule.Hour, schedule.Dom, schedule.Month, schedule.Dow}, 0)
}

// quoted makes text from any user safe for a status message.
func quoted(text string) string {
	const enough = 60
	if len(text) > enough {
		text = text[:enough] + "..."
	}
	return strconv.QuoteToASCII(text)
}

// printable does the same for a message that contains such text.
func printable(message string) string { return strings.Trim(quoted(message), `"`) }
