package window

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestOpenAndNext(t *testing.T) {
	for name, c := range map[string]struct {
		text, at string
		open     bool
		next     string // "" for never
	}{
		"no windows: always":         {"", "2026-03-07T01:59:59Z", true, ""},
		"blanks are no windows":      {" \n", "2026-03-07T01:59:59Z", true, ""},
		"before":                     {"0 2 * * 6 for 4h", "2026-03-07T01:59:59Z", false, "2026-03-07T02:00:00Z"},
		"the first moment":           {"0 2 * * 6 for 4h", "2026-03-07T02:00:00Z", true, "2026-03-07T06:00:00Z"},
		"within":                     {"0 2 * * 6 for 4h", "2026-03-07T05:59:59Z", true, "2026-03-07T06:00:00Z"},
		"the last moment is outside": {"0 2 * * 6 for 4h", "2026-03-07T06:00:00Z", false, "2026-03-14T02:00:00Z"},
		"names of days":              {"0 2 * * SAT for 4h", "2026-03-07T03:00:00Z", true, "2026-03-07T06:00:00Z"},
		"over midnight":              {"0 22 * * * for 4h", "2026-03-07T01:00:00Z", true, "2026-03-07T02:00:00Z"},
		"another zone, another hour": {"CRON_TZ=Europe/Zurich 0 3 * * * for 1h", "2026-03-07T02:30:00Z", true,
			"2026-03-07T03:00:00Z"},
		"the same in summer": {"CRON_TZ=Europe/Zurich 0 3 * * * for 1h", "2026-07-07T02:30:00Z", false,
			"2026-07-08T01:00:00Z"},
		"an hour that clocks skip": {"CRON_TZ=Europe/Zurich 30 2 * * * for 1h", "2026-03-28T20:00:00Z", false,
			"2026-03-30T00:30:00Z"},
		"either of two": {"0 2 * * * for 1h; 0 12 * * * for 30m", "2026-03-07T12:10:00Z", true,
			"2026-03-07T12:30:00Z"},
		"the earlier of two": {"0 12 * * * for 30m;0 2 * * * for 1h", "2026-03-07T00:00:00Z", false,
			"2026-03-07T02:00:00Z"},
		"two that meet are one": {"0 2 * * * for 1h; 0 3 * * * for 1h", "2026-03-07T02:10:00Z", true,
			"2026-03-07T04:00:00Z"},
		"two that overlap are one": {"0 2 * * * for 2h; 0 3 * * * for 30m", "2026-03-07T03:10:00Z", true,
			"2026-03-07T04:00:00Z"},
		"itself again before it ends":                 {"0 2,3 * * * for 2h", "2026-03-07T02:10:00Z", true, "2026-03-07T05:00:00Z"},
		"a week":                                      {"0 0 * * 1 for 168h", "2026-03-07T02:10:00Z", true, ""},
		"minutes of the working days are one":         {"* 2-4 * * * for 1m", "2026-03-07T02:10:00Z", true, "2026-03-07T05:00:00Z"},
		"moments that are no whole seconds":           {"0 2 * * * for 1h", "2026-03-07T02:59:59.999Z", true, "2026-03-07T03:00:00Z"},
		"a time in another zone":                      {"0 2 * * * for 1h", "2026-03-07T12:30:00+10:00", true, "2026-03-07T03:00:00Z"},
		"a leap day":                                  {"0 0 29 2 * for 24h", "2026-03-07T00:00:00Z", false, "2028-02-29T00:00:00Z"},
		"the day of the month or the one of the week": {"0 2 13 * 5 for 1h", "2026-03-06T02:30:00Z", true, "2026-03-06T03:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			windows, err := Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			at := parseTime(t, c.at)
			if open := windows.Open(at); open != c.open {
				t.Errorf("open: %v", open)
			}
			next := windows.Next(at)
			switch {
			case c.next != "" && !next.Equal(parseTime(t, c.next)):
				t.Errorf("next is %s", next)
			case c.next == "" && !next.IsZero() && !windows.Open(next): // or too far in the future to matter
				t.Errorf("closes at %s", next)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"0 2 * * 6":                          `window "0 2 * * 6": write "<minute> <hour> <day> <month> <weekday> for <duration>"`,
		"0 2 * * for 4h":                     "write \"<minute>",
		"0 0 2 * * 6 for 4h":                 "write \"<minute>",
		"@daily for 4h":                      "write \"<minute>",
		"0 2 * * 6 for 4h;":                  `window "": write`,
		"; ;":                                `window "": write`,
		"0 2 * * 7 for 4h":                   "end of range (7) above maximum (6): 7: write",
		"a 2 * * 6 for 4h":                   "failed to parse int from a",
		", 2 * * 6 for 4h":                   "a field has no value: write",
		"0 2 * * 6 for 4":                    `"4" is no duration that a window can have: write one of up to 168 hours, such as 90m or 4h`,
		"0 2 * * 6 for 0s":                   `"0s" is no duration`,
		"0 2 * * 6 for -1h":                  `"-1h" is no duration`,
		"0 2 * * 6 for 169h":                 `"169h" is no duration`,
		"0 2 30 2 * for 4h":                  "that day never comes: write one that does",
		"CRON_TZ=Mars/Base 0 2 * * * for 1h": `"Mars/Base" is no time zone: write one such as CRON_TZ=Europe/Zurich`,
		"CRON_TZ=../passwd 0 2 * * * for 1h": `"../passwd" is no time zone`,
		"CRON_TZ=Local 0 2 * * * for 1h":     `"Local" is no time zone`,
		"CRON_TZ= 0 2 * * * for 1h":          `"" is no time zone`,
		"CRON_TZ=UTC":                        "write \"<minute>",
		"CRON_TZ=UTC TZ=UTC * * * * for 1h":  "write \"<minute>",
		"TZ=UTC 0 2 * * * for 1h":            "write \"<minute>",
		"TZ=0":                               "write \"<minute>",
		strings.Repeat("0 2 * * 6 for 4h;", 16) + "0 2 * * 6 for 4h": "17 windows: write at most 16",
		strings.Repeat(" ", 1000) + "x":                              "the windows are 1001 characters: write at most 1000",
		"\x00 2 * * 6 for 4h":                                        `failed to parse int from \x00`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := Parse(text)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v, want %s", err, want)
			}
			if strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 400 {
				t.Errorf("not fit for a line of status: %q", err)
			}
		})
	}
}

func TestStringRoundTrip(t *testing.T) {
	windows, err := Parse("  0 2 * *  SAT for 4h ;\nCRON_TZ=Asia/Tokyo 0 3 * * * for 1h30m")
	if err != nil || windows.String() != "0 2 * * SAT for 4h; CRON_TZ=Asia/Tokyo 0 3 * * * for 1h30m" {
		t.Errorf("got %q: %v", windows, err)
	}
	if again, err := Parse(windows.String()); err != nil || again.String() != windows.String() {
		t.Errorf("got %q: %v", again, err)
	}
}

// drawWindow draws a valid window.
func drawWindow(t *rapid.T) string {
	field := func(name string, texts ...string) string { return rapid.SampledFrom(texts).Draw(t, name) }
	return strings.Join([]string{
		field("zone", "", "CRON_TZ=UTC", "CRON_TZ=Europe/Zurich", "CRON_TZ=America/Sao_Paulo", "CRON_TZ=Australia/Lord_Howe",
			"CRON_TZ=Asia/Kathmandu"),
		field("minute", "0", "30", "*/20", "*", "59"), field("hour", "0", "2", "*/5", "*", "22-23"), field("day", "*", "1", "31", "*/9"),
		field("month", "*", "2", "*/3", "10"),
		field("weekday", "*", "0", "1-5", "SAT"), "for", field("duration", "1s", "1m", "45m", "4h", "36h", "168h"),
	}, " ")
}

func TestOpenDoesNotChangeBeforeNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		windows, err := Parse(strings.Join(rapid.SliceOfN(rapid.Custom(drawWindow), 1, 3).Draw(t, "windows"), ";"))
		if err != nil {
			t.Skip(err) // a 31 February
		}
		at := time.Unix(rapid.Int64Range(1_770_000_000, 1_900_000_000).Draw(t, "at"), rapid.Int64Range(0, 999_999_999).Draw(t, "part"))
		open, next := windows.Open(at), windows.Next(at)
		if next.IsZero() {
			t.Skip("never")
		}
		if !next.After(at) {
			t.Fatalf("%s: after %s comes %s", windows, at, next)
		}
		between := at.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(at))-1).Draw(t, "later")))
		if windows.Open(between) != open {
			t.Fatalf("%s: open is %v at %s, and not so at %s, before %s", windows, open, at, between, next)
		}
		if !open && !windows.Open(next) {
			t.Fatalf("%s: does not open at %s", windows, next)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "0 2 * * 6 for 4h", "CRON_TZ=Europe/Zurich 0 3 * * MON-FRI for 1h; */5 * * * * for 1m", "TZ=0",
		", , , , , for 1h", "0 2 30 2 * for 4h"} {
		f.Add(text, int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		windows, err := Parse(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("not a line: %q", err)
			}
			return
		}
		if again, err := Parse(windows.String()); err != nil || again.String() != windows.String() {
			t.Errorf("%q is read back as %q: %v", windows, again, err)
		}
		at := time.Unix(seconds%4_000_000_000, 0)
		if next := windows.Next(at); !next.IsZero() && !next.After(at) {
			t.Errorf("%q: after %s comes %s", windows, at, next)
		}
	})
}

// The most expensive valid text.
func BenchmarkNext(b *testing.B) {
	for name, text := range map[string]string{
		"minutes":     "* * * * * for 1m",
		"all":         strings.TrimSuffix(strings.Repeat("* * * * * for 1m;", maxWindows), ";"),
		"seldom days": "* * * * * for 1m" + strings.Repeat(";0 0 29 2 * for 1s", maxWindows-1),
	} {
		windows, err := Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				windows.Next(time.Unix(1_900_000_000, 0))
			}
		})
	}
}
