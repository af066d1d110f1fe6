// Package bundle is the one program that holds every Kubernetes component, as it lies in the user's cache folder.
//
// It is built once per machine and per set of sources, whatever the number of clones, and never by anything but Build.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/swarm-io/swarm-operator/devcluster"
)

// Version is the Kubernetes that the bundle holds. The components refuse a version they cannot parse, so it is stamped into them.
const Version = "v1.37.1"

// Bundle is a place for the built programs; whether they are there is another question.
type Bundle struct{ folder string }

// Locate returns the bundle that belongs to this program.
func Locate() (Bundle, error) {
	cache, err := Cache()
	if err != nil {
		return Bundle{}, err
	}
	return Bundle{folder: filepath.Join(cache, "kubernetes-"+key())}, nil
}

// Cache is the folder of everything that outlives clones and clusters.
func Cache() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find your cache folder: %w (set HOME or XDG_CACHE_HOME)", err)
	}
	return filepath.Join(cache, "swarm-operator"), nil
}

// key changes with whatever changes the program: its sources, the compiler, the platform, the flags.
func key() string {
	hash := sha256.New()
	files, _ := fs.Glob(devcluster.Sources, "*/*.go")
	for _, name := range append([]string{"go.mod", "go.sum"}, files...) {
		text, _ := devcluster.Sources.ReadFile(name)
		fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
	}
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, flags())
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// Kube is the program with all components.
func (b Bundle) Kube() string { return filepath.Join(b.folder, "kube") }

// Pause is the tarball of the image that holds a pod's namespaces.
func (b Bundle) Pause() string { return filepath.Join(b.folder, "pause.tar") }

// Tools is a folder to put on the PATH: kubectl under its own name.
func (b Bundle) Tools() string { return filepath.Join(b.folder, "tools") }

// Built reports whether the bundle is ready for use.
func (b Bundle) Built() error {
	_, err := os.Stat(b.Kube())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no Kubernetes %s is built on this machine yet: run `make build` (once, about 10 minutes on two cores)", Version)
	}
	return err
}

// forget removes bundles of other sources that were not used for a month.
func (b Bundle) forget() {
	siblings, _ := filepath.Glob(filepath.Join(filepath.Dir(b.folder), "kubernetes-*"))
	old := slices.DeleteFunc(siblings, func(folder string) bool {
		info, err := os.Stat(folder)
		return folder == b.folder || err != nil || time.Since(info.ModTime()) < 30*24*time.Hour
	})
	for _, folder := range old {
		_ = os.RemoveAll(folder)
	}
}

// Used marks the bundle as in use, so that it is not forgotten.
func (b Bundle) Used() { _ = os.Chtimes(b.folder, time.Time{}, time.Now()) }
