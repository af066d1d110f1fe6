// Package filewatch follows files in volumes that the kubelet keeps up to date.
//
// It promises to send the content of all files whenever that of one has changed, at once where the kernel reports
// changes, and after a short while where it does not (no inotify instances left, a file system without them). A file,
// or the folder it is in, may come, go and come back. The kubelet changes a volume by renaming a link, `..data`, to
// which the files are links themselves: so folders are watched, never files.
package filewatch

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A Snapshot is the content of one file, or why there is none.
type Snapshot struct {
	Content []byte
	Err     error
}

func (s Snapshot) equal(other Snapshot) bool {
	if s.Err != nil && other.Err != nil {
		return s.Err.Error() == other.Err.Error()
	}
	return s.Err == nil && other.Err == nil && bytes.Equal(s.Content, other.Content)
}

// A Watcher follows some files.
type Watcher struct {
	Files    []string      // in the order in which they are read
	Interval time.Duration // how often to look without a notification
	Log      *slog.Logger
}

// Watch sends what is in the files, first at the start and then after each change, until the context ends. A receiver that
// is slow misses intermediate content, never the last.
func (w Watcher) Watch(ctx context.Context, snapshots chan<- []Snapshot) {
	notifier, err := fsnotify.NewWatcher()
	if err != nil {
		w.Log.Warn("changes of files are noticed late: the kernel cannot tell of them", "every", w.Interval.String(), "error", err)
		notifier = &fsnotify.Watcher{} // its channels are nil
	} else {
		defer notifier.Close()
	}
	ticker := time.NewTicker(w.Interval)
	defer ticker.Stop()
	var lastSent []Snapshot
	for {
		// The watch comes before the look, so that nothing can happen unseen in between.
		if err == nil {
			w.watchDirs(notifier)
		}
		current := w.readFiles()
		out := snapshots
		if equalSnapshots(lastSent, current) {
			out = nil
		}
		select {
		case out <- current:
			lastSent = current
		case <-notifier.Events:
		case <-notifier.Errors: // lost events: look again
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w Watcher) readFiles() []Snapshot {
	snapshots := make([]Snapshot, len(w.Files))
	for i, name := range w.Files {
		snapshots[i] = readFile(name)
	}
	return snapshots
}

// maxReads is how often a file must be missing in a row. The kubelet removes the old content after the rename: a reader that
// resolved the path before the rename may find nothing.
const maxReads = 3

func readFile(name string) (snapshot Snapshot) {
	for range maxReads {
		snapshot.Content, snapshot.Err = os.ReadFile(name)
		if !errors.Is(snapshot.Err, fs.ErrNotExist) {
			break
		}
	}
	return snapshot
}

// watchDirs watches the folder of each file, or the nearest existing one above it.
func (w Watcher) watchDirs(notifier *fsnotify.Watcher) {
	for _, name := range w.Files {
		dir := filepath.Dir(name)
		for watchNearestDir(notifier, dir) != dir {
			if _, err := os.Stat(dir); err != nil {
				break // it does not exist, and the watch above it reports when it comes
			}
		}
	}
}

func watchNearestDir(notifier *fsnotify.Watcher, dir string) string {
	for notifier.Add(dir) != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

func equalSnapshots(a, b []Snapshot) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].equal(b[i]) {
			return false
		}
	}
	return true
}
