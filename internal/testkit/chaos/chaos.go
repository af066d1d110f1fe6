// Package chaos freezes and kills the processes of pods on our own development cluster, and runs the program that can do the same to
// Kubernetes itself. It is for suites: an action that fails, fails the spec.
package chaos

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// SkipOnForeignCluster skips the spec on a cluster that is not our own development cluster.
func SkipOnForeignCluster() {
	if os.Getenv("DEVCLUSTER_DATA") == "" {
		Skip("needs a cluster of our own to hurt")
	}
}

// PodProcesses are the processes of a pod on this machine.
type PodProcesses struct {
	name   string
	folder string // its cgroup in the freezer hierarchy
}

// ProcessesOf finds the cgroup of a pod. Only nodes of our own cluster have cgroups on this machine.
func ProcessesOf(pod *corev1.Pod) PodProcesses {
	GinkgoHelper()
	for _, pattern := range []string{
		"/sys/fs/cgroup/freezer/*/*/kubepods/pod%", "/sys/fs/cgroup/freezer/*/*/kubepods/*/pod%",
		"/sys/fs/cgroup/*/*/kubepods/pod%", "/sys/fs/cgroup/*/*/kubepods/*/pod%",
	} {
		folders, err := filepath.Glob(strings.ReplaceAll(pattern, "%", string(pod.UID)))
		Expect(err).NotTo(HaveOccurred())
		for _, folder := range folders {
			if freezerFile(folder) != "" {
				return PodProcesses{pod.Name, folder}
			}
		}
	}
	Fail("no cgroup of pod " + pod.Name + " that can be frozen")
	return PodProcesses{}
}

// freezerFile returns the file that freezes a cgroup, "" if it has none.
func freezerFile(folder string) string {
	for _, name := range []string{"freezer.state", "cgroup.freeze"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return filepath.Join(folder, name)
		}
	}
	return ""
}

// Freeze stops every process of the pod at once.
func (b PodProcesses) Freeze() { b.setFreezer("FROZEN", "1") }

// Unfreeze lets them continue.
func (b PodProcesses) Unfreeze() { b.setFreezer("THAWED", "0") }

func (b PodProcesses) setFreezer(first, v1Value string) {
	GinkgoHelper()
	file, value := freezerFile(b.folder), first
	if file == "" {
		return // the pod is gone
	}
	if filepath.Base(file) == "cgroup.freeze" {
		value = v1Value
	}
	Expect(os.WriteFile(file, []byte(value), 0o600)).To(Succeed())
}

// Kill sends SIGKILL to the processes of the pod's containers whose command line contains the word.
func (b PodProcesses) Kill(substring string) {
	GinkgoHelper()
	count := 0
	for id, line := range b.commandLines() {
		if strings.Contains(line, substring) {
			Expect(syscall.Kill(id, syscall.SIGKILL)).To(Succeed())
			count++
		}
	}
	Expect(count).To(BeNumerically(">", 0), "no process of "+b.name+" is "+substring)
}

// CommandLines returns the command lines of all processes of the pod.
func (b PodProcesses) CommandLines() []string {
	GinkgoHelper()
	return slices.Sorted(maps.Values(b.commandLines()))
}

// commandLines returns the command lines of the processes of the pod's containers, by ID.
func (b PodProcesses) commandLines() map[int]string {
	GinkgoHelper()
	lists, err := filepath.Glob(filepath.Join(b.folder, "*", "cgroup.procs"))
	Expect(err).NotTo(HaveOccurred())
	commands := map[int]string{}
	for _, list := range lists {
		ids, err := os.ReadFile(list)
		if err != nil {
			continue // the container is gone
		}
		for id := range strings.FieldsSeq(string(ids)) {
			line, _ := os.ReadFile(filepath.Join("/proc", id, "cmdline"))
			if number, err := strconv.Atoi(id); err == nil {
				commands[number] = strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " ")
			}
		}
	}
	return commands
}

// Devcluster runs the program that created our own cluster. Suites are three folders below the root.
func Devcluster(ctx context.Context, arguments ...string) {
	GinkgoHelper()
	program := filepath.Join("..", "..", "..", "bin", "devcluster")
	output, err := exec.CommandContext(ctx, program, append(arguments, "--data", os.Getenv("DEVCLUSTER_DATA"))...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}
