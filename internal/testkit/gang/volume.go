package gang

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/swarm-io/swarm-operator/internal/roster"
)

// The files of a worker.
const (
	listFile  = "config.yml"
	floorFile = "config-version"
)

// volume is the two files of a worker, and what the kubelet would write to them.
type volume struct {
	home       string
	offered    string // the newest list of the ConfigMap
	wanted     int64  // by the annotation
	has        int64  // the version of the list in the file
	held       bool   // the list does not arrive
	annotation string
}

// nudge always writes the annotation, and then brings the list that it asks for, as soon as that is known.
func (v *volume) nudge(annotation string) error {
	if annotation == v.annotation && v.wanted > 0 {
		return nil
	}
	v.annotation = annotation
	v.wanted, _ = strconv.ParseInt(annotation, 10, 64) // none is 0
	if err := replace(filepath.Join(v.home, floorFile), annotation); err != nil {
		return err
	}
	return v.catchUp()
}

// offer has a new list.
func (v *volume) offer(list string) error {
	v.offered = list
	return v.catchUp()
}

func (v *volume) catchUp() error {
	if v.held || v.offered == "" || v.has >= v.wanted || version(v.offered) <= v.has {
		return nil
	}
	return v.bring(v.offered)
}

// bring writes a list.
func (v *volume) bring(list string) error {
	v.offered, v.has = list, version(list)
	return replace(filepath.Join(v.home, listFile), list)
}

func version(list string) int64 {
	file, err := roster.ParseFile(list)
	if err != nil {
		return 0
	}
	return file.Version
}

// replace writes a file that may be read at any time: the reader finds the old or the new one, whole.
func replace(file, content string) error {
	hidden := filepath.Join(filepath.Dir(file), "."+strings.TrimPrefix(filepath.Base(file), "."))
	if err := os.WriteFile(hidden, []byte(content), 0o600); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return os.Rename(hidden, file)
}
