package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega/gbytes"

	"github.com/swarm-io/swarm-operator/internal/testkit/programtest"
	"github.com/swarm-io/swarm-operator/worker"
)

// A testWorker is one worker with volumes as the kubelet makes them.
type testWorker struct {
	config     worker.Config
	address    string
	output     *gbytes.Buffer
	swaps      int
	aborted    bool // its process would have ended, so what the worker returns means nothing
	stopWorker func() error
}

func newTestWorker(t *testing.T) *testWorker {
	t.Helper()
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return &testWorker{address: listener.Addr().String(), output: gbytes.NewBuffer(), config: worker.Config{
		Worker: "swarm-worker-0", PodUID: "u-1", Listener: listener, Grace: 100 * time.Millisecond,
		File: filepath.Join(dir, "config", "config.yml"), VersionFile: filepath.Join(dir, "pod", "config-version"),
		Journal: filepath.Join(dir, "journal"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
}

// startScript starts a worker whose program is a bash script. The folder of the world is its first argument.
func startScript(t *testing.T, text string) *testWorker {
	t.Helper()
	w := newTestWorker(t)
	jobs, err := worker.Command(w.config, w.output, w.output, "bash", "-c", text, "bash", w.dir())
	must(t, err)
	w.start(t, jobs)
	return w
}

func (w *testWorker) dir() string { return filepath.Dir(w.config.Journal) }

// start starts the worker, which stops when the test ends.
func (w *testWorker) start(t *testing.T, jobs worker.Jobs) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- worker.RunWith(ctx, w.config, jobs) }()
	w.stopWorker = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := w.stopWorker(); err != nil && !w.aborted {
			t.Errorf("worker: %v", err)
		}
	})
}

// publish replaces the list as the kubelet does.
func (w *testWorker) publish(t *testing.T, version int, jobs ...string) {
	t.Helper()
	w.replaceFile(t, w.config.File,
		fmt.Sprintf("version: %d\nworkloads:\n  swarm-worker-0: {jobs: [%s], version: %d}\n  swarm-worker-1: {jobs: [theirs], version: 1}\n",
			version, strings.Join(jobs, ", "), version))
}

func (w *testWorker) replaceFile(t *testing.T, file, content string) {
	t.Helper()
	w.swaps++
	dir, next := filepath.Dir(file), "..content-"+strconv.Itoa(w.swaps)
	must(t, os.MkdirAll(filepath.Join(dir, next), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, next, filepath.Base(file)), []byte(content), 0o600))
	must(t, os.Symlink(next, filepath.Join(dir, "..data_tmp")))
	must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if _, err := os.Lstat(file); err != nil {
		must(t, os.Symlink(filepath.Join("..data", filepath.Base(file)), file))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get returns an answer over HTTP.
func (w *testWorker) get(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get("http://" + w.address + path)
	must(t, err)
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	must(t, err)
	return strings.TrimSpace(body.String())
}

func (w *testWorker) awaitVersion(t *testing.T, version int) {
	t.Helper()
	want := fmt.Sprintf(`{"worker":"swarm-worker-0","podUID":"u-1","version":%d,"config":%d}`, version, version)
	programtest.Eventually(t, want, func() bool { return w.get(t, "/internal/version") == want })
}

func (w *testWorker) awaitOutput(t *testing.T, part string) {
	t.Helper()
	programtest.Eventually(t, "output "+part, func() bool { return strings.Contains(string(w.output.Contents()), part) })
}

// awaitPIDs waits for a file of process numbers that a script writes.
func (w *testWorker) awaitPIDs(t *testing.T, name string) []int {
	t.Helper()
	var content []byte
	programtest.Eventually(t, "file "+name, func() bool {
		content, _ = os.ReadFile(filepath.Join(w.dir(), name))
		return strings.HasSuffix(string(content), "\n")
	})
	var pids []int
	for text := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.Atoi(text)
		must(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// isAlive reports whether the process runs. A zombie that has not been reaped yet is dead.
func isAlive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(status), ") Z ")
}

type journalEntry struct {
	Event, Worker, PodUID, Job, Error string
	Version, Config                   int64
	Time                              time.Time
}

// readJournal reads the worker's journal, each line as a short sentence.
func (w *testWorker) readJournal(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(w.config.Journal)
	must(t, err)
	var lines []string
	for text := range strings.Lines(string(content)) {
		var entry journalEntry
		must(t, json.Unmarshal([]byte(text), &entry))
		if entry.Worker != "swarm-worker-0" || entry.PodUID != "u-1" || entry.Time.IsZero() {
			t.Errorf("journal line %s", text)
		}
		sentence := entry.Event + " " + entry.Job
		if entry.Event == "acknowledge" {
			sentence += strconv.FormatInt(entry.Config, 10)
		}
		lines = append(lines, strings.TrimSpace(sentence))
	}
	return lines
}
