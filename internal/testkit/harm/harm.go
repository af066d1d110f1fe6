// Package harm does to pods of our own development cluster what happens to pods elsewhere: it freezes and kills their processes, and runs
// the program that can do the same to Kubernetes itself. It is for suites: an action that fails, fails the spec.
package harm

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

// SkipElsewhere leaves clusters alone that are not ours to hurt.
func SkipElsewhere() {
	if os.Getenv("DEVCLUSTER_DATA") == "" {
		Skip("needs a cluster of our own to hurt")
	}
}

// A Body is the processes of a pod, as the machine sees them.
type Body struct {
	name   string
	folder string // its cgroup in the freezer hierarchy
}

// Of finds the cgroup of a pod. Only nodes of our own cluster have theirs on this machine.
func Of(pod *corev1.Pod) Body {
	GinkgoHelper()
	for _, pattern := range []string{
		"/sys/fs/cgroup/freezer/*/*/kubepods/pod%", "/sys/fs/cgroup/freezer/*/*/kubepods/*/pod%",
		"/sys/fs/cgroup/*/*/kubepods/pod%", "/sys/fs/cgroup/*/*/kubepods/*/pod%",
	} {
		folders, err := filepath.Glob(strings.ReplaceAll(pattern, "%", string(pod.UID)))
		Expect(err).NotTo(HaveOccurred())
		for _, folder := range folders {
			if switchOf(folder) != "" {
				return Body{pod.Name, folder}
			}
		}
	}
	Fail("no cgroup of pod " + pod.Name + " that can be frozen")
	return Body{}
}

// switchOf is the file by which a cgroup is frozen, "" when it has none.
func switchOf(folder string) string {
	for _, name := range []string{"freezer.state", "cgroup.freeze"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return filepath.Join(folder, name)
		}
	}
	return ""
}

// Freeze stops every process of the pod at once.
func (b Body) Freeze() { b.set("FROZEN", "1") }

// Thaw lets them go on.
func (b Body) Thaw() { b.set("THAWED", "0") }

func (b Body) set(first, second string) {
	GinkgoHelper()
	file, word := switchOf(b.folder), first
	if file == "" {
		return // the pod is gone
	}
	if filepath.Base(file) == "cgroup.freeze" {
		word = second
	}
	Expect(os.WriteFile(file, []byte(word), 0o600)).To(Succeed())
}

// Kill sends SIGKILL to the processes of the pod's containers whose command line contains the word.
func (b Body) Kill(word string) {
	GinkgoHelper()
	killed := 0
	for id, line := range b.processes() {
		if strings.Contains(line, word) {
			Expect(syscall.Kill(id, syscall.SIGKILL)).To(Succeed())
			killed++
		}
	}
	Expect(killed).To(BeNumerically(">", 0), "no process of "+b.name+" is "+word)
}

// Commands are the command lines of all processes of the pod.
func (b Body) Commands() []string {
	GinkgoHelper()
	return slices.Sorted(maps.Values(b.processes()))
}

// processes are the command lines of the processes of the pod's containers, by id.
func (b Body) processes() map[int]string {
	GinkgoHelper()
	lists, err := filepath.Glob(filepath.Join(b.folder, "*", "cgroup.procs"))
	Expect(err).NotTo(HaveOccurred())
	found := map[int]string{}
	for _, list := range lists {
		ids, err := os.ReadFile(list)
		if err != nil {
			continue // the container is gone
		}
		for id := range strings.FieldsSeq(string(ids)) {
			line, _ := os.ReadFile(filepath.Join("/proc", id, "cmdline"))
			if number, err := strconv.Atoi(id); err == nil {
				found[number] = strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " ")
			}
		}
	}
	return found
}

// Devcluster runs the program that made our own cluster. Suites are three folders below the root.
func Devcluster(ctx context.Context, arguments ...string) {
	GinkgoHelper()
	program := filepath.Join("..", "..", "..", "bin", "devcluster")
	output, err := exec.CommandContext(ctx, program, append(arguments, "--data", os.Getenv("DEVCLUSTER_DATA"))...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}
