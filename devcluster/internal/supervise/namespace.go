package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// private are the folders where container runtimes keep state at fixed paths. A node sees empty ones of its own, so that
// nodes never meet each other's state or the host's, and all of it is gone with the node.
var private = []string{"/run", "/var/lib", "/var/log"}

// enter makes the new namespaces that the process was started in into a machine: its own process table, state folders,
// host name and forwarding network. Mounts made from here on never reach the host.
func enter(data string, node Node) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the node's mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount the node's /proc: %w", err)
	}
	for _, folder := range private {
		if err := empty(folder, data); err != nil {
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

// empty covers folder with a new file system; a data folder that lies below it stays in sight.
func empty(folder, data string) error {
	kept, err := os.Open(data)
	if err != nil {
		return fmt.Errorf("open the data folder: %w", err)
	}
	defer kept.Close()
	if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("cover the node's %s: %w", folder, err)
	}
	if !strings.HasPrefix(data, folder+string(filepath.Separator)) {
		return nil
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return fmt.Errorf("make the node's way to the data folder: %w", err)
	}
	source := fmt.Sprintf("/proc/self/fd/%d", kept.Fd())
	if err := unix.Mount(source, data, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep the data folder in the node's sight: %w", err)
	}
	return nil
}
