package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A memoryGroup is the memory cgroup of one operator. The kubelet reads the same files of a container for its working set
// (container_memory_working_set_bytes), by which it evicts pods.
type memoryGroup struct {
	folder          string
	usage, inactive string // the file with the usage, and the entry of memory.stat with file pages that were not used for a while
}

// newMemoryGroup creates a cgroup, which only root may do.
func newMemoryGroup() (*memoryGroup, error) {
	group := &memoryGroup{folder: "/sys/fs/cgroup", usage: "memory.current", inactive: "inactive_file"}
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil { // cgroup v1
		group = &memoryGroup{folder: "/sys/fs/cgroup/memory", usage: "memory.usage_in_bytes", inactive: "total_inactive_file"}
	}
	made, err := os.MkdirTemp(group.folder, "swarm-bench-")
	if err != nil {
		return nil, fmt.Errorf("create memory cgroup: %w", err)
	}
	group.folder = made
	return group, nil
}

// wrap returns a command that enters the cgroup before it becomes the program, so that all of the program's memory is charged to it.
func (g *memoryGroup) wrap(program string) []string {
	return []string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, g.folder, program}
}

// workingSet is the memory in MB that the kernel cannot take back at once.
func (g *memoryGroup) workingSet() (float64, error) {
	usage, err := os.ReadFile(filepath.Join(g.folder, g.usage))
	if err != nil {
		return 0, fmt.Errorf("read memory usage: %w", err)
	}
	stat, err := os.ReadFile(filepath.Join(g.folder, "memory.stat"))
	if err != nil {
		return 0, fmt.Errorf("read memory statistics: %w", err)
	}
	total, err := strconv.ParseInt(strings.TrimSpace(string(usage)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read memory usage: %w", err)
	}
	for line := range strings.Lines(string(stat)) {
		if value, found := strings.CutPrefix(line, g.inactive+" "); found {
			inactive, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return float64(max(0, total-inactive)) / 1e6, err
		}
	}
	return 0, fmt.Errorf("read memory statistics: no %s in %s", g.inactive, g.folder)
}

// remove deletes the cgroup once its process has ended.
func (g *memoryGroup) remove() { _ = os.Remove(g.folder) }
