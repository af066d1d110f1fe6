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

	"github.com/swarm-io/swarm-operator/worker"
)

// A world is one worker with volumes as the kubelet makes them.
type world struct {
	config  worker.Config
	address string
	out     *output
	number  int
	aborted bool // its process would have ended, so what the worker returns means nothing
	stop    func() error
}

func begin(t *testing.T) *world {
	t.Helper()
	folder := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return &world{address: listener.Addr().String(), out: &output{}, config: worker.Config{
		Worker: "swarm-worker-0", PodUID: "u-1", Listener: listener, Grace: 100 * time.Millisecond,
		File: filepath.Join(folder, "config", "config.yml"), VersionFile: filepath.Join(folder, "pod", "config-version"),
		Journal: filepath.Join(folder, "journal"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
}

// script starts a worker whose program is a bash script. The folder of the world is its first argument.
func script(t *testing.T, text string) *world {
	t.Helper()
	w := begin(t)
	jobs, err := worker.Command(w.config, w.out, w.out, "bash", "-c", text, "bash", w.folder())
	must(t, err)
	w.run(t, jobs)
	return w
}

func (w *world) folder() string { return filepath.Dir(w.config.Journal) }

// run starts the worker, which stops when the test ends.
func (w *world) run(t *testing.T, jobs worker.Jobs) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- worker.RunWith(ctx, w.config, jobs) }()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := w.stop(); err != nil && !w.aborted {
			t.Errorf("worker: %v", err)
		}
	})
}

// publish replaces the list as the kubelet does.
func (w *world) publish(t *testing.T, version int, jobs ...string) {
	t.Helper()
	w.swap(t, w.config.File, fmt.Sprintf("version: %d\nworkloads:\n  swarm-worker-0: {jobs: [%s], version: %d}\n  swarm-worker-1: {jobs: [theirs], version: 1}\n",
		version, strings.Join(jobs, ", "), version))
}

func (w *world) swap(t *testing.T, file, content string) {
	t.Helper()
	w.number++
	folder, next := filepath.Dir(file), "..content-"+strconv.Itoa(w.number)
	must(t, os.MkdirAll(filepath.Join(folder, next), 0o755))
	must(t, os.WriteFile(filepath.Join(folder, next, filepath.Base(file)), []byte(content), 0o600))
	must(t, os.Symlink(next, filepath.Join(folder, "..data_tmp")))
	must(t, os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")))
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

// eventually polls for things that happen outside of this process.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for ticker := time.NewTicker(5 * time.Millisecond); !holds(); {
		select {
		case <-ticker.C:
		case <-limit:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// ask returns an answer over HTTP.
func (w *world) ask(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get("http://" + w.address + path)
	must(t, err)
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	must(t, err)
	return strings.TrimSpace(body.String())
}

func (w *world) awaitVersion(t *testing.T, version int) {
	t.Helper()
	want := fmt.Sprintf(`{"worker":"swarm-worker-0","podUID":"u-1","version":%d,"config":%d}`, version, version)
	eventually(t, want, func() bool { return w.ask(t, "/internal/version") == want })
}

func (w *world) awaitOutput(t *testing.T, part string) {
	t.Helper()
	eventually(t, "output "+part, func() bool { return strings.Contains(w.out.String(), part) })
}

// pids waits for a file of process numbers that a script writes.
func (w *world) pids(t *testing.T, name string) []int {
	t.Helper()
	var content []byte
	eventually(t, "file "+name, func() bool {
		content, _ = os.ReadFile(filepath.Join(w.folder(), name))
		return strings.HasSuffix(string(content), "\n")
	})
	var found []int
	for text := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.Atoi(text)
		must(t, err)
		found = append(found, pid)
	}
	return found
}

// alive reports whether the process runs. A zombie that has not been reaped yet is dead.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(status), ") Z ")
}

type line struct {
	Event, Worker, PodUID, Job, Error string
	Version, Config                   int64
	Time                              time.Time
}

// journal reads the worker's journal, each line as a short sentence.
func (w *world) journal(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(w.config.Journal)
	must(t, err)
	var lines []string
	for text := range strings.Lines(string(content)) {
		var read line
		must(t, json.Unmarshal([]byte(text), &read))
		if read.Worker != "swarm-worker-0" || read.PodUID != "u-1" || read.Time.IsZero() {
			t.Errorf("journal line %s", text)
		}
		sentence := read.Event + " " + read.Job
		if read.Event == "acknowledge" {
			sentence += strconv.FormatInt(read.Config, 10)
		}
		lines = append(lines, strings.TrimSpace(sentence))
	}
	return lines
}

// output is a buffer for several writers.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
