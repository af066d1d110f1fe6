package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// private are the folders where container runtimes keep state at fixed paths. A node sees empty ones of its own, so that
// nodes never meet each other's state or the host's, and all of it is gone with the node.
var private = []string{"/run", "/var/lib", "/var/log"}

// tunables are settings of the whole machine that a kubelet changes to its liking. A node has copies of its own to change.
var tunables = []string{
	"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys", "kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom",
}

// enter makes the new namespaces that the process was started in into a machine: its own process table, state folders,
// host name and forwarding network. Mounts made from here on never reach the host.
func enter(node Node) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the node's mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount the node's /proc: %w", err)
	}
	for _, folder := range private {
		if err := empty(folder, node.Keep); err != nil {
			return err
		}
	}
	if err := show(node.State, kubeletFolder); err != nil {
		return err
	}
	for _, name := range tunables {
		if err := detach(name); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(node.Hostname)); err != nil {
		return fmt.Errorf("set the node's host name: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("let the node forward packets: %w", err)
	}
	return nil
}

// kubeletFolder is where a kubelet keeps its state. A short path, as on any node: sockets below it may not be longer than 108
// characters, and the data folder's path may be long.
const kubeletFolder = "/var/lib/kubelet"

// empty covers folder with a new file system; folders to keep below it stay visible.
func empty(folder string, keep []string) error {
	kept := map[string]*os.File{}
	for _, path := range keep {
		if !strings.HasPrefix(path, folder+string(filepath.Separator)) {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		defer file.Close()
		kept[path] = file
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("cover the node's %s: %w", folder, err)
	}
	for path, file := range kept {
		if err := show(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), path); err != nil {
			return err
		}
	}
	return nil
}

// show makes a folder visible at another path, too.
func show(source, path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make the node's %s: %w", path, err)
	}
	if err := unix.Mount(source, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount the node's %s: %w", path, err)
	}
	return nil
}

// detach covers a kernel setting with a copy, so that changing it in the node changes nothing outside.
func detach(setting string) error {
	path := filepath.Join("/proc/sys", setting)
	value, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // this kernel has no such setting
	}
	if err != nil {
		return fmt.Errorf("read kernel setting %s: %w", setting, err)
	}
	own := filepath.Join("/run/devcluster", setting)
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		return fmt.Errorf("make room for the node's kernel settings: %w", err)
	}
	if err := os.WriteFile(own, value, 0o644); err != nil {
		return fmt.Errorf("copy kernel setting %s: %w", setting, err)
	}
	if err := unix.Mount(own, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover kernel setting %s: %w", setting, err)
	}
	return nil
}
