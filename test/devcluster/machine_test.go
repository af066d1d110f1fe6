package devcluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
)

// machine is the state that clusters must not change: all mounts, routes, interfaces, control groups, packet rules and kernel settings,
// except those with the name of a cluster, since other clusters may start and stop meanwhile.
type machine struct {
	Mounts, Interfaces, Routes, ControlGroups, Folders []string
	Rules                                              string
	Kernel                                             map[string]string
}

// clusterName matches the names of what clusters create on the machine.
var clusterName = regexp.MustCompile(`\b(dc|devcluster)-[0-9a-f]{8}`)

// containerFolders are the default folders for the state of a node's programs, which must not be used.
var containerFolders = []string{
	"/etc/cni", "/run/containerd", "/run/netns", "/run/runc", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet",
	"/var/log/containers", "/var/log/pods",
}

// kubeletSettings are the kernel settings that a kubelet changes by default, for the whole machine.
var kubeletSettings = []string{
	"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys", "kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom",
	"net/ipv4/ip_forward",
}

func theMachine() machine {
	return machine{
		Mounts:        lines("/proc/self/mountinfo"),
		Interfaces:    withoutClusterNames(interfaces()),
		Routes:        withoutClusterNames(routeTargets()),
		ControlGroups: withoutClusterNames(controlGroups()),
		Folders:       contents(containerFolders),
		Rules:         packetRules(),
		Kernel:        kernelSettings(),
	}
}

func withoutClusterNames(all []string) []string {
	kept := slices.DeleteFunc(all, clusterName.MatchString)
	slices.Sort(kept)
	return kept
}

// counters are the columns of the IPv6 routes that change with every packet.
var counters = regexp.MustCompile(` [0-9a-f]{8} [0-9a-f]{8} [0-9a-f]{8} [0-9a-f]{8} +(\S+)$`)

func routeTargets() []string {
	all := routes()
	for n, route := range all {
		all[n] = counters.ReplaceAllString(route, " $1")
	}
	return all
}

func contents(folders []string) []string {
	var paths []string
	for _, folder := range folders {
		within, _ := filepath.Glob(filepath.Join(folder, "*"))
		paths = append(paths, within...)
		if exists(folder) {
			paths = append(paths, folder)
		}
	}
	return paths
}

func packetRules() string {
	nft, err := exec.LookPath("nft")
	if err != nil || os.Geteuid() != 0 {
		return ""
	}
	rules, err := exec.Command(nft, "--stateless", "list", "ruleset").Output()
	Expect(err).NotTo(HaveOccurred())
	return string(rules)
}

func kernelSettings() map[string]string {
	settings := map[string]string{}
	for _, name := range kubeletSettings {
		value, _ := os.ReadFile(filepath.Join("/proc/sys", name))
		settings[name] = strings.TrimSpace(string(value))
	}
	return settings
}
