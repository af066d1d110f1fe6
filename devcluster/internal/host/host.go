// Package host checks that the machine meets a cluster's needs. Every negative answer names the fix in the same line.
package host

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Root reports whether namespaces, interfaces and control groups may be made.
func Root() bool { return os.Geteuid() == 0 }

// programs are what a real node runs beside Kubernetes itself, all from Debian packages.
var programs = []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "nft"}

// Packages are the Debian packages that hold those programs and the CNI plugins.
const Packages = "containerd runc containernetworking-plugins nftables"

var plugins = []string{"bridge", "host-local", "loopback"}

// Path has the folders of system programs in it, which a plain user's may lack.
func Path() string { return os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin" }

// Tools checks that a real node can run here.
func Tools() error {
	if err := os.Setenv("PATH", Path()); err != nil {
		return fmt.Errorf("set PATH: %w", err)
	}
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if CNI() == "" {
		missing = append(missing, "CNI plugins")
	}
	if len(missing) > 0 {
		return fmt.Errorf("a real node needs %s: run `apt-get install -y %s`, or use --simulated-nodes", strings.Join(missing, ", "), Packages)
	}
	return nil
}

// CNI is the folder with the network plugins, or nothing.
func CNI() string {
	for _, folder := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if hasPlugins(folder) {
			return folder
		}
	}
	return ""
}

func hasPlugins(folder string) bool {
	for _, plugin := range plugins {
		if _, err := os.Stat(filepath.Join(folder, plugin)); err != nil {
			return false
		}
	}
	return true
}

// need is what a cluster writes in a day of tests, with room to spare.
const need = 2 << 30

// Disk checks that the disk below folder has room.
func Disk(folder string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return fmt.Errorf("ask for free room in %s: %w", folder, err)
	}
	if free := stat.Bavail * uint64(stat.Bsize); free < need {
		return fmt.Errorf("the disk of %s has %d MiB free and a cluster needs %d: free some, or name a folder on another disk with --data",
			folder, free>>20, need>>20)
	}
	return nil
}

// Ports below the range that the kernel gives to outgoing connections, so that a port is still free when a component comes back.
const (
	firstPort = 20000
	ports     = 12000
)

// FreePorts picks n loopback ports without a listener, none of them twice and none of them taken.
func FreePorts(n int, taken ...int) ([]int, error) {
	free := make([]int, 0, n)
	for _, at := range rand.Perm(ports) { // each is tried once, so that all that are free are found
		if port := firstPort + at; !slices.Contains(taken, port) && listens(port) == nil {
			free = append(free, port)
		}
		if len(free) == n {
			return free, nil
		}
	}
	return nil, fmt.Errorf("found only %d of %d free ports between %d and %d: stop something that listens there", len(free), n, firstPort,
		firstPort+ports)
}

// PortFree checks a port that the user asked for.
func PortFree(port int) error {
	if err := listens(port); err != nil {
		return fmt.Errorf("port %d is taken: name another with --port, or leave it out and one is found (%w)", port, err)
	}
	return nil
}

func listens(port int) error {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return err
	}
	return listener.Close()
}
