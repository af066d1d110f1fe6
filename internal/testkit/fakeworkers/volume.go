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

// configFiles holds the two files of a worker, and what the kubelet would write to them.
type configFiles struct {
	folder           string
	latestList       string // the newest list of the ConfigMap
	requestedVersion int64  // by the annotation
	fileVersion      int64  // the version of the list in the file
	updatesPaused    bool   // lists are not written to the file
	annotation       string
}

// nudge writes the annotation, and then the list that it asks for, as soon as that is known.
func (v *configFiles) nudge(annotation string) error {
	if annotation == v.annotation && v.requestedVersion > 0 {
		return nil
	}
	v.annotation = annotation
	v.requestedVersion, _ = strconv.ParseInt(annotation, 10, 64) // 0 without the annotation
	if err := writeFileAtomically(filepath.Join(v.folder, versionFile), annotation); err != nil {
		return err
	}
	return v.sync()
}

// setLatestList records the newest list.
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

// writeFileAtomically replaces a file: a reader finds all of the old or all of the new content.
func writeFileAtomically(file, content string) error {
	hidden := filepath.Join(filepath.Dir(file), "."+strings.TrimPrefix(filepath.Base(file), "."))
	if err := os.WriteFile(hidden, []byte(content), 0o600); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return os.Rename(hidden, file)
}
