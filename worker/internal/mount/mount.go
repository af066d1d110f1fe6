// Package mount follows files in volumes that the kubelet keeps up to date.
//
// It promises to send the content of all files whenever that of one has changed, at once where the kernel reports
// changes, and after a short while where it does not (no inotify instances left, a file system without them). A file,
// or the folder it is in, may come, go and come back. The kubelet changes a volume by renaming a link, `..data`, to
// which the files are links themselves: so folders are watched, never files.
package mount

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

// A Sight is the content of one file, or why there is none.
type Sight struct {
	Content []byte
	Err     error
}

func (s Sight) equal(other Sight) bool {
	if s.Err != nil && other.Err != nil {
		return s.Err.Error() == other.Err.Error()
	}
	return s.Err == nil && other.Err == nil && bytes.Equal(s.Content, other.Content)
}

// A Follower follows some files.
type Follower struct {
	Files []string      // in the order in which they are read
	Every time.Duration // how often to look without a notification
	Log   *slog.Logger
}

// Follow sends what is in the files, first at the start and then after each change, until the context ends. A receiver that
// is slow misses intermediate content, never the last.
func (f Follower) Follow(ctx context.Context, to chan<- []Sight) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.Log.Warn("changes of files are noticed late: the kernel cannot tell of them", "every", f.Every.String(), "error", err)
		watcher = &fsnotify.Watcher{} // its channels are nil
	} else {
		defer watcher.Close()
	}
	ticker := time.NewTicker(f.Every)
	defer ticker.Stop()
	var told []Sight
	for {
		// The watch comes before the look, so that nothing can happen unseen in between.
		if err == nil {
			f.watch(watcher)
		}
		seen := f.look()
		outlet := to
		if same(told, seen) {
			outlet = nil
		}
		select {
		case outlet <- seen:
			told = seen
		case <-watcher.Events:
		case <-watcher.Errors: // lost events: look again
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f Follower) look() []Sight {
	sights := make([]Sight, len(f.Files))
	for i, name := range f.Files {
		sights[i] = lookAt(name)
	}
	return sights
}

// tries is how often a file must be missing in a row. The kubelet removes the old content after the rename: a reader that
// resolved the path before the rename may find nothing.
const tries = 3

func lookAt(name string) (seen Sight) {
	for range tries {
		seen.Content, seen.Err = os.ReadFile(name)
		if !errors.Is(seen.Err, fs.ErrNotExist) {
			break
		}
	}
	return seen
}

// watch watches the folder of each file, or the nearest existing one above it.
func (f Follower) watch(watcher *fsnotify.Watcher) {
	for _, name := range f.Files {
		folder := filepath.Dir(name)
		for watchNearest(watcher, folder) != folder {
			if _, err := os.Stat(folder); err != nil {
				break // it does not exist, and the watch above it reports when it comes
			}
		}
	}
}

func watchNearest(watcher *fsnotify.Watcher, folder string) string {
	for watcher.Add(folder) != nil && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
	}
	return folder
}

func same(a, b []Sight) bool {
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
