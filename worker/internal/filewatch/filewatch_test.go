package filewatch

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A testVolume is a folder that is updated like the kubelet does: the files are links into ..data, which is a link to a folder for each
// version of the content, and is replaced by a rename.
type testVolume struct {
	dir    string
	writes int
}

func (v *testVolume) publish(t *testing.T, name, content string) {
	t.Helper()
	v.writes++
	must(t, os.MkdirAll(v.dir, 0o755))
	next := "..content-" + strconv.Itoa(v.writes)
	must(t, os.Mkdir(filepath.Join(v.dir, next), 0o755))
	must(t, os.WriteFile(filepath.Join(v.dir, next, name), []byte(content), 0o600))
	must(t, os.Symlink(next, filepath.Join(v.dir, "..data_tmp")))
	must(t, os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")))
	if err := os.Symlink(filepath.Join("..data", name), filepath.Join(v.dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	if v.writes > 1 {
		must(t, os.RemoveAll(filepath.Join(v.dir, "..content-"+strconv.Itoa(v.writes-1))))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startWatcher watches files by kernel notifications only: the polling interval is longer than any test.
func startWatcher(t *testing.T, interval time.Duration, files ...string) <-chan []Snapshot {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	snapshots, done := make(chan []Snapshot), make(chan struct{})
	go func() {
		defer close(done)
		Watcher{Files: files, Interval: interval, Log: slog.New(slog.DiscardHandler)}.Watch(ctx, snapshots)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return snapshots
}

// awaitContent receives until the file with this number has the content; what is in between may be missed.
func awaitContent(t *testing.T, snapshots <-chan []Snapshot, index int, content string) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case received := <-snapshots:
			if received[index].Err == nil && string(received[index].Content) == content {
				return
			}
		case <-limit:
			t.Fatalf("%q was not seen", content)
		}
	}
}

func awaitAbsence(t *testing.T, snapshots <-chan []Snapshot, number int) {
	t.Helper()
	for seen := range snapshots {
		if errors.Is(seen[number].Err, fs.ErrNotExist) {
			return
		}
	}
}

func TestEachReplacementIsSent(t *testing.T) {
	config := &testVolume{dir: t.TempDir()}
	config.publish(t, "config.yml", "0")
	snapshots := startWatcher(t, time.Hour, filepath.Join(config.dir, "config.yml"))
	awaitContent(t, snapshots, 0, "0")
	for i := range 20 {
		config.publish(t, "config.yml", strconv.Itoa(i+1))
		awaitContent(t, snapshots, 0, strconv.Itoa(i+1))
	}
}

func TestTheLastOfManyReplacementsIsSent(t *testing.T) {
	config := &testVolume{dir: t.TempDir()}
	config.publish(t, "config.yml", "0")
	snapshots := startWatcher(t, time.Hour, filepath.Join(config.dir, "config.yml"))
	for i := range 50 {
		config.publish(t, "config.yml", strconv.Itoa(i+1))
	}
	awaitContent(t, snapshots, 0, "50")
}

func TestFilesMayComeLaterGoAndComeBack(t *testing.T) {
	root := t.TempDir()
	config, pod := &testVolume{dir: filepath.Join(root, "a", "b", "config")}, &testVolume{dir: filepath.Join(root, "pod")}
	snapshots := startWatcher(t, time.Hour, filepath.Join(config.dir, "config.yml"), filepath.Join(pod.dir, "version"))
	awaitAbsence(t, snapshots, 0)
	config.publish(t, "config.yml", "late")
	awaitContent(t, snapshots, 0, "late")
	pod.publish(t, "version", "7")
	awaitContent(t, snapshots, 1, "7")
	must(t, os.RemoveAll(config.dir))
	awaitAbsence(t, snapshots, 0)
	config.publish(t, "config.yml", "again")
	awaitContent(t, snapshots, 0, "again")
}

func TestPlainFilesAreWatchedToo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yml")
	snapshots := startWatcher(t, time.Hour, file)
	awaitAbsence(t, snapshots, 0)
	must(t, os.WriteFile(file, []byte("one"), 0o600))
	awaitContent(t, snapshots, 0, "one")
	must(t, os.WriteFile(file+".new", []byte("two"), 0o600))
	must(t, os.Rename(file+".new", file))
	awaitContent(t, snapshots, 0, "two")
}

// The same content is not sent again: after a change comes the next change.
func TestUnchangedContentIsNotSent(t *testing.T) {
	config := &testVolume{dir: t.TempDir()}
	config.publish(t, "config.yml", "same")
	snapshots := startWatcher(t, time.Millisecond, filepath.Join(config.dir, "config.yml"))
	awaitContent(t, snapshots, 0, "same")
	for range 5 {
		config.publish(t, "config.yml", "same")
	}
	config.publish(t, "config.yml", "other")
	if seen := <-snapshots; string(seen[0].Content) != "other" {
		t.Errorf("told %q, %v", seen[0].Content, seen[0].Err)
	}
}
