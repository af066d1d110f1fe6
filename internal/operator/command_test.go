package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

func TestHelpVersionAndUsageErrors(t *testing.T) {
	build := Build{Version: "1.2.3", Commit: "abc", Date: "2026-01-02"}
	for _, c := range []struct {
		reason    string
		arguments []string
		code      int
		out, log  string
	}{
		{"the version", []string{"--version"}, 0, "swarm-operator 1.2.3 (commit abc, 2026-01-02)\n", ""},
		{"help has flags", []string{"--help"}, 0, "-config file", ""},
		{"help has keys", []string{"-h"}, 0, "SWARM_CONTROLLER_RESYNC_PERIOD", ""},
		{"a flag that there is not", []string{"--worker=3"}, 2, "",
			"swarm-operator: flag provided but not defined: -worker: see swarm-operator --help\n"},
		{"a flag without its value", []string{"--config"}, 2, "", "flag needs an argument"},
		{"an argument", []string{"config.yaml"}, 2, "", `unexpected argument "config.yaml"`},
		{"a file that there is not", []string{"--config", "/nowhere/config.yaml"}, 1, "", "/nowhere/config.yaml: no such file"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			var out, log bytes.Buffer
			code := Command(t.Context(), c.arguments, build, &out, &log)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(log.String(), c.log) {
				t.Errorf("code %d, out %q, log %q", code, out.String(), log.String())
			}
			if c.out == "" && out.Len() > 0 || c.log == "" && log.Len() > 0 {
				t.Errorf("said too much: out %q, log %q", out.String(), log.String())
			}
		})
	}
}

// Every line of the log is JSON, including configuration errors, and each problem is one line.
func TestR17_JSONOfARefusal(t *testing.T) {
	var log bytes.Buffer
	path := writeConfig(t, "controller: {workers: 0, resyncPeriod: 1s}")
	if code := Command(t.Context(), []string{"--config", path}, Build{}, nil, &log); code != 1 {
		t.Errorf("ended with %d", code)
	}
	var problems []string
	for line := range strings.Lines(log.String()) {
		var entry struct{ Level, Msg, Problem string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Level != "ERROR" || entry.Msg == "" {
			t.Errorf("%s: %v", line, err)
		}
		problems = append(problems, entry.Problem)
	}
	if len(problems) != 2 || problems[0] != "controller.resyncPeriod is 1s: the minimum is 5s" {
		t.Errorf("got %q", problems)
	}
}

func TestR17_JSONOfEveryLibrary(t *testing.T) {
	for _, c := range []struct {
		level string
		want  []string
	}{
		{"debug", []string{"ours verbose", "ours debug", "ours", "ours warn", "ours error", "klog", "log", "grpc"}},
		{"info", []string{"ours", "ours warn", "ours error", "klog", "log", "grpc"}},
		{"warn", []string{"ours warn", "ours error", "klog", "grpc"}},
		{"error", []string{"ours error", "klog", "grpc"}},
	} {
		t.Run(c.level, func(t *testing.T) {
			var out bytes.Buffer
			ours := newLogger(&out, Logging{Level: c.level, Format: "json"})
			logEverything(ours)
			lines := slices.Collect(strings.Lines(out.String()))
			if len(lines) != len(c.want) {
				t.Fatalf("want %q, got %q", c.want, lines)
			}
			for n, line := range lines {
				var entry struct{ Time, Level, Msg string }
				if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" ||
					levels[strings.ToLower(entry.Level)].String() != entry.Level || !strings.HasSuffix(entry.Msg, c.want[n]) {
					t.Errorf("want %q, got %s: %v", c.want[n], line, err)
				}
			}
		})
	}
}

func logEverything(ours *slog.Logger) {
	logr.FromSlogHandler(ours.Handler()).V(1).Info("ours verbose")
	ours.Debug("ours debug")
	ours.Info("ours")
	ours.Warn("ours warn")
	ours.Error("ours error")
	klog.ErrorS(errors.New("an error"), "klog")
	log.Print("log")
	grpclog.Error("grpc")
}
