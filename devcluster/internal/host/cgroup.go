package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// hierarchies are the mounted control group trees: one on cgroup v2, one per controller on v1.
func hierarchies() ([]string, error) {
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	defer mounts.Close()
	var found []string
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		field := strings.Fields(lines.Text())
		if len(field) > 2 && (field[2] == "cgroup" || field[2] == "cgroup2") {
			found = append(found, field[1])
		}
	}
	return found, nil
}

// MakeCgroup makes a control group that pods can be put below, in every hierarchy.
func MakeCgroup(name string) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	for _, tree := range trees {
		if err := os.MkdirAll(filepath.Join(tree, name), 0o755); err != nil {
			return fmt.Errorf("make control group %s: %w", name, err)
		}
		if err := inheritCpuset(tree, name); err != nil {
			return err
		}
	}
	return nil
}

// inheritCpuset fills in what cgroup v1 leaves empty: a group without processors takes no process.
func inheritCpuset(tree, name string) error {
	path := tree
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		parent := path
		path = filepath.Join(path, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(parent, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("read %s of %s: %w", file, parent, err)
			}
			if len(strings.TrimSpace(string(value))) == 0 {
				continue
			}
			if err := os.WriteFile(filepath.Join(path, file), value, 0o644); err != nil {
				return fmt.Errorf("write %s of %s: %w", file, path, err)
			}
		}
	}
	return nil
}

// RemoveCgroup removes a control group with all below it. The kernel releases a group shortly after its last process.
func RemoveCgroup(name string, within time.Duration) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	for _, tree := range trees {
		if err := removeTree(filepath.Join(tree, name), time.Now().Add(within)); err != nil {
			return err
		}
	}
	return nil
}

func removeTree(folder string, deadline time.Time) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read control group %s: %w", folder, err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(folder, entry.Name()), deadline); err != nil {
				return err
			}
		}
	}
	for {
		err := os.Remove(folder)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove control group %s: %w", folder, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
