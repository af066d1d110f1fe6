package main

import (
	"bytes"
	"context"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func probe(t *testing.T, arguments ...string) (status int, out, complaints string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), &stdout, &stderr, arguments)
	return status, stdout.String(), stderr.String()
}

func TestCommandLine(t *testing.T) {
	folder := t.TempDir()
	present := filepath.Join(folder, "present")
	if err := os.WriteFile(present, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PROBE_SET", "yes")

	for name, c := range map[string]struct {
		arguments []string
		status    int
		out       string
		complaint string
	}{
		"no command":             {nil, 2, "", "usage: probe COMMAND"},
		"unknown command":        {[]string{"fly"}, 2, "", `unknown command "fly"`},
		"cat":                    {[]string{"cat", present, present}, 0, "hello\nhello\n", ""},
		"cat of nothing":         {[]string{"cat"}, 2, "", "usage: probe cat FILE..."},
		"cat of a missing file":  {[]string{"cat", present + "-not"}, 1, "", "no such file"},
		"write without text":     {[]string{"write", present}, 2, "", "got 1 arguments"},
		"env":                    {[]string{"env", "PROBE_SET"}, 0, "yes\n", ""},
		"env unset":              {[]string{"env", "PROBE_UNSET"}, 1, "", "not set"},
		"sleep a little":         {[]string{"sleep", "1ms"}, 0, "", ""},
		"sleep a word":           {[]string{"sleep", "long"}, 2, "", "invalid duration"},
		"lookup":                 {[]string{"lookup", "127.0.0.1"}, 0, "127.0.0.1\n", ""},
		"get of nothing":         {[]string{"get"}, 2, "", "usage: probe get"},
		"get with a wrong flag":  {[]string{"get", "--patience", "1s", "x"}, 2, "", "flag provided but not defined"},
		"serve with an argument": {[]string{"serve", "now"}, 2, "", "usage: probe serve"},
		"version":                {[]string{"version"}, 0, "probe dev (commit unknown, built unknown)\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, complaint := probe(t, c.arguments...)
			if status != c.status || out != c.out || !strings.Contains(complaint, c.complaint) {
				t.Errorf("got status %d, out %q, complaint %q", status, out, complaint)
			}
		})
	}
}

func TestWriteThenCat(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if status, _, complaint := probe(t, "write", file, "first"); status != 0 {
		t.Fatal(complaint)
	}
	if _, out, _ := probe(t, "cat", file); out != "first\n" {
		t.Errorf("cat after write printed %q", out)
	}
}

func TestServeAnswersAndStops(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serveOn(ctx, listener, handler()) }()

	base := "http://" + listener.Addr().String()
	host, _ := os.Hostname()
	if status, out, complaint := probe(t, "get", base+"/"); status != 0 || out != host+"\n" {
		t.Errorf("get / = %d %q %q", status, out, complaint)
	}
	if _, out, _ := probe(t, "get", base+"/healthz"); out != "ok\n" {
		t.Errorf("get /healthz = %q", out)
	}
	if status, _, complaint := probe(t, "get", base+"/file?path=/no/such"); status != 1 || !strings.Contains(complaint, "404") {
		t.Errorf("get of a missing file = %d %q", status, complaint)
	}

	stop()
	if err := <-done; err != nil {
		t.Errorf("stopped server said %v", err)
	}
}

func TestServeHandsOutFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler())
	defer server.Close()
	if _, out, _ := probe(t, "get", server.URL+"/file?path="+file); out != "content" {
		t.Errorf("got %q", out)
	}
}

func TestJournalRecordsStartAndStop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := journal(ctx, nil, []string{file}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], " start") || !strings.HasSuffix(lines[1], " stop") {
		t.Errorf("journal holds %q", lines)
	}
}
