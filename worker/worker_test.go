package worker_test

import (
	"context"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/testkit/programtest"
	"github.com/swarm-io/swarm-operator/worker"
)

// callRecorder are jobs that only say what happens to them.
type callRecorder chan string

func (n callRecorder) Start(ctx context.Context, job string) error {
	n <- "start " + job
	context.AfterFunc(ctx, func() { n <- "context of " + job + " ends" })
	return nil
}

func (n callRecorder) Stop(_ context.Context, job string) error {
	n <- "stop " + job
	return nil
}

func (n callRecorder) await(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, <-n)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The whole way: mounted files, jobs, HTTP, journal.
func TestWorkerFollowsItsPool(t *testing.T) {
	w, jobs := newTestWorker(t), make(callRecorder)
	w.start(t, jobs)
	w.awaitVersion(t, 0)
	programtest.Eventually(t, "it says what it waits for", func() bool {
		return strings.Contains(w.get(t, "/internal/health"), "no such file")
	})
	w.publish(t, 1, "a", "b")
	jobs.await(t, "start a", "start b")
	w.awaitVersion(t, 1)
	w.replaceFile(t, w.config.File, "version: [")
	programtest.Eventually(t, "it says what is wrong", func() bool {
		return strings.Contains(w.get(t, "/internal/health"), "keeping the last valid list")
	})
	w.awaitVersion(t, 1)
	w.publish(t, 2, "b", "c")
	jobs.await(t, "context of a ends", "start c", "stop a")
	w.awaitVersion(t, 2)
	programtest.Eventually(t, "it is well", func() bool { return w.get(t, "/internal/health") == `{"status":"ok","jobs":2,"running":2}` })

	ended := make(chan error, 1)
	go func() { ended <- w.stopWorker() }()
	jobs.await(t, "context of b ends", "context of c ends", "stop b", "stop c")
	must(t, <-ended)
	got := w.readJournal(t)
	slices.Sort(got[7:])
	if want := "boot,acknowledge 1,start a,start b,stop a,acknowledge 2,start c,stop b,stop c"; strings.Join(got, ",") != want {
		t.Errorf("journal %q, want %q", got, want)
	}
}

// A container that restarts before the kubelet has brought the list that took its jobs away.
func TestRestartOnAStaleFile(t *testing.T) {
	w, jobs := newTestWorker(t), make(callRecorder)
	w.publish(t, 3, "a", "b")
	w.replaceFile(t, w.config.VersionFile, "4")
	w.start(t, jobs)
	w.awaitVersion(t, 3) // it has read the file by now, and starts nothing
	programtest.Eventually(t, "it says what it waits for", func() bool {
		return strings.Contains(w.get(t, "/internal/health"), "the pod's annotation asks for 4")
	})
	w.publish(t, 4, "b")
	jobs.await(t, "start b")
	go func() { _ = w.stopWorker() }()
	jobs.await(t, "context of b ends", "stop b")
}

func TestConfigFromEnvironment(t *testing.T) {
	complete := worker.Config{
		Worker: "w-0", PodUID: "u", File: "/c", VersionFile: "/v", Port: 80, Grace: time.Second, Journal: "/j", Lease: 15 * time.Second,
	}
	minimal := worker.Config{
		Worker: "w-0", PodUID: "u", File: "/app/config/config.yml", VersionFile: "/app/pod/config-version", Port: 9090, Grace: 20 * time.Second,
	}
	for _, c := range []struct {
		environment map[string]string
		want        worker.Config
	}{
		{map[string]string{"POD_NAME": "w-0", "POD_UID": "u"}, minimal},
		{map[string]string{"POD_NAME": "w-0", "POD_UID": "u", "SWARM_CONFIG": "/c", "SWARM_CONFIG_VERSION_FILE": "/v",
			"SWARM_PORT": "80", "SWARM_GRACE_SECONDS": "1", "SWARM_JOURNAL": "/j", "SWARM_LEASE_SECONDS": "15"}, complete},
	} {
		got, err := worker.ConfigFromEnvironment(func(name string) string { return c.environment[name] })
		got.Log = nil
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("got %+v, %v, want %+v", got, err, c.want)
		}
	}
}

// Run takes everything from the environment, and needs no journal.
func TestRunFollowsTheEnvironment(t *testing.T) {
	w, jobs := newTestWorker(t), make(callRecorder)
	must(t, w.config.Listener.Close())
	for name, value := range map[string]string{
		"POD_NAME": "swarm-worker-0", "POD_UID": "u-1", "SWARM_CONFIG": w.config.File, "SWARM_CONFIG_VERSION_FILE": w.config.VersionFile,
		"SWARM_PORT": "0", "SWARM_JOURNAL": "",
	} {
		t.Setenv(name, value)
	}
	w.publish(t, 1, "a")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx, jobs) }()
	jobs.await(t, "start a")
	cancel()
	jobs.await(t, "context of a ends", "stop a")
	must(t, <-done)

	// Without the Lease that it was meant to have, a worker would go on beside its successor.
	t.Setenv("SWARM_LEASE_SECONDS", "x")
	if err := worker.Run(t.Context(), jobs); err == nil || !strings.Contains(err.Error(), `SWARM_LEASE_SECONDS="x" is not a number`) {
		t.Errorf("got %v", err)
	}
	t.Setenv("SWARM_LEASE_SECONDS", "")
	t.Setenv("POD_UID", "")
	if err := worker.Run(t.Context(), jobs); err == nil || !strings.Contains(err.Error(), "POD_UID is not set") {
		t.Errorf("got %v", err)
	}
}

func TestIncompleteEnvironmentIsRefused(t *testing.T) {
	_, err := worker.ConfigFromEnvironment(func(name string) string {
		return map[string]string{"SWARM_PORT": "x", "SWARM_GRACE_SECONDS": "-1", "SWARM_LEASE_SECONDS": "1"}[name]
	})
	for _, part := range []string{"POD_NAME is not set", "POD_UID is not set", `SWARM_PORT="x" is not a number`,
		"SWARM_GRACE_SECONDS is negative", "SWARM_LEASE_SECONDS: a Lease lasts"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

func TestRunRefusesInvalidConfiguration(t *testing.T) {
	validConfig := newTestWorker(t).config
	t.Cleanup(func() { _ = validConfig.Listener.Close() })
	for message, change := range map[string]func(*worker.Config){
		"POD_NAME is not set":             func(c *worker.Config) { c.Worker = "" },
		"SWARM_PORT is 65536":             func(c *worker.Config) { c.Port = 65536 },
		"open journal":                    func(c *worker.Config) { c.Journal = "/nonexistent/journal" },
		"serve /internal/version: listen": func(c *worker.Config) { c.Port, c.Listener = c.Listener.Addr().(*net.TCPAddr).Port, nil },
	} {
		config := validConfig
		change(&config)
		if err := worker.RunWith(t.Context(), config, make(callRecorder)); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("got %v, want %q", err, message)
		}
	}
}
