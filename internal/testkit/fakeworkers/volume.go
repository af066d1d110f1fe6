package fakeworkers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// The files of a worker.
const (
	listFile    = "config.yml"
	versionFile = "config-version"
)

// configFiles is the two files of a worker, and what the kubelet would write to them.
type configFiles struct {
	folder           string
	latestList       string // the newest list of the ConfigMap
	requestedVersion int64  // by the annotation
	fileVersion      int64  // the version of the list in the file
	updatesPaused    bool   // the list does not arrive
	annotation       string
}

// nudge always writes the annotation, and then brings the list that it asks for, as soon as that is known.
func (v *configFiles) nudge(annotation string) error {
	if annotation == v.annotation && v.requestedVersion > 0 {
		return nil
	}
	v.annotation = annotation
	v.requestedVersion, _ = strconv.ParseInt(annotation, 10, 64) // none is 0
	if err := writeFileAtomically(filepath.Join(v.folder, versionFile), annotation); err != nil {
		return err
	}
	return v.sync()
}

// setLatestList has a new list.
func (v *configFiles) setLatestList(list string) error {
	v.latestList = list
	return v.sync()
}

func (v *configFiles) sync() error {
	if v.updatesPaused || v.latestList == "" || v.fileVersion >= v.requestedVersion || listVersion(v.latestList) <= v.fileVersion {
		return nil
	}
	return v.writeList(v.latestList)
}

// writeList writes a list.
func (v *configFiles) writeList(list string) error {
	v.latestList, v.fileVersion = list, listVersion(list)
	return writeFileAtomically(filepath.Join(v.folder, listFile), list)
}

func listVersion(list string) int64 {
	file, err := codec.ParseFile(list)
	if err != nil {
		return 0
	}
	return file.Version
}

// writeFileAtomically writes a file that may be read at any time: the reader finds the old or the new one, whole.
func writeFileAtomically(file, content string) error {
	hidden := filepath.Join(filepath.Dir(file), "."+strings.TrimPrefix(filepath.Base(file), "."))
	if err := os.WriteFile(hidden, []byte(content), 0o600); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return os.Rename(hidden, file)
}
