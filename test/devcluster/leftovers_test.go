package devcluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/gomega"
)

// clusterID distinguishes the clusters of one machine in names of interfaces and control groups. It follows from the folder.
func (c cluster) clusterID() string {
	sum := sha256.Sum256([]byte(c.data))
	return hex.EncodeToString(sum[:4])
}

// leftovers returns everything on this machine that belongs to the cluster, one line each.
func (c cluster) leftovers() []string {
	var leftovers []string
	for _, one := range c.processes() {
		leftovers = append(leftovers, fmt.Sprintf("process %d %s", one.pid, strings.Join(one.args, " ")))
	}
	for _, name := range c.interfaces() {
		leftovers = append(leftovers, "interface "+name)
	}
	leftovers = append(leftovers, mentions("route ", routes(), c.clusterID())...)
	leftovers = append(leftovers, mentions("mount ", lines("/proc/self/mountinfo"), c.data)...)
	leftovers = append(leftovers, mentions("control group ", controlGroups(), c.clusterID())...)
	return append(leftovers, c.files()...)
}

func mentions(kind string, all []string, what string) []string {
	var result []string
	for _, one := range all {
		if strings.Contains(one, what) {
			result = append(result, kind+one)
		}
	}
	return result
}

// A process belongs to the cluster or to one of its containers.
type process struct {
	pid  int
	args []string
}

// processes returns the processes of the cluster, identified by the folder in their command line or environment, or in a container by their
// control group.
func (c cluster) processes() []process {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	var processes []process
	for _, folder := range folders {
		args, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(folder, "environ"))
		groups, _ := os.ReadFile(filepath.Join(folder, "cgroup"))
		known := bytes.Contains(args, []byte(c.data)) || bytes.Contains(environment, []byte(c.data)) ||
			bytes.Contains(groups, []byte(c.clusterID()))
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil && known {
			processes = append(processes, process{pid: pid, args: strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")})
		}
	}
	return processes
}

// supervisors returns the processes that supervise all others of the cluster.
func (c cluster) supervisors() []int {
	var pids []int
	for _, one := range c.processes() {
		if len(one.args) > 1 && one.args[1] == "supervise" {
			pids = append(pids, one.pid)
		}
	}
	return pids
}

// argumentsOf returns the command line of a component.
func (c cluster) argumentsOf(component string) []string {
	all := c.processes()
	at := slices.IndexFunc(all, func(one process) bool { return one.args[0] == component })
	Expect(at).To(BeNumerically(">=", 0), "process %s", component)
	return all[at].args
}

func (c cluster) interfaces() []string {
	return slices.DeleteFunc(interfaces(), func(name string) bool { return !strings.Contains(name, c.clusterID()) })
}

// files returns the folder itself, files left in the temporary folder, and locks in the user's cache.
func (c cluster) files() []string {
	temporary, _ := filepath.Glob(filepath.Join(c.temporary(), "*"))
	locks, _ := filepath.Glob(filepath.Join(cacheFolder(), "*"+c.clusterID()+"*"))
	found := mentions("file ", slices.Concat(temporary, locks), "")
	if exists(c.data) {
		found = append(found, "file "+c.data)
	}
	return found
}

// cacheFolder is the folder for files that outlive clusters.
func cacheFolder() string {
	cache, err := os.UserCacheDir()
	Expect(err).NotTo(HaveOccurred())
	return filepath.Join(cache, "swarm-operator")
}

func interfaces() []string {
	links, err := net.Interfaces()
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, link := range links {
		names = append(names, link.Name)
	}
	return names
}

func routes() []string { return append(lines("/proc/net/route"), lines("/proc/net/ipv6_route")...) }

// controlGroups returns the groups at the top of every hierarchy.
func controlGroups() []string {
	var groups []string
	for _, mount := range lines("/proc/self/mounts") {
		if field := strings.Fields(mount); len(field) > 2 && strings.HasPrefix(field[2], "cgroup") {
			groups = append(groups, foldersIn(field[1])...)
		}
	}
	return groups
}

func foldersIn(path string) []string {
	entries, err := os.ReadDir(path)
	Expect(err).NotTo(HaveOccurred())
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() {
			folders = append(folders, filepath.Join(path, entry.Name()))
		}
	}
	return folders
}

func lines(file string) []string {
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
