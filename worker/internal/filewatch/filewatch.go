// Package filewatch watches files in volumes that the kubelet updates.
//
// It promises to send the content of all files whenever one has changed: at once where the kernel reports changes, and after a short delay
// where it does not (no inotify instances left, or a file system without inotify). A file or its directory may appear, disappear and come
// back. The kubelet updates a volume by renaming the symbolic link `..data`, through which the files are linked. So directories are
// watched, never files.
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

// A Watcher watches some files.
type Watcher struct {
	Files    []string      // in the order in which they are read
	Interval time.Duration // how often to look without a notification
	Log      *slog.Logger
}

// Watch sends the content of the files at the start and after each change, until the context ends. A slow receiver misses intermediate
// content, never the last.
func (w Watcher) Watch(ctx context.Context, snapshots chan<- []Snapshot) {
	notifier, err := fsnotify.NewWatcher()
	if err != nil {
		w.Log.Warn("file changes are noticed late: the kernel does not report them", "every", w.Interval.String(), "error", err)
		notifier = &fsnotify.Watcher{} // its channels are nil
	} else {
		defer notifier.Close()
	}
	ticker := time.NewTicker(w.Interval)
	defer ticker.Stop()
	var lastSent []Snapshot
	for {
		// Watch before reading, so that no change is missed in between.
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
		case <-notifier.Errors: // lost events: read again
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

// watchDirs watches the directory of each file, or the nearest existing parent.
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
