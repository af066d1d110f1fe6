package pool

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func skipUnlessOwnCluster() {
	if os.Getenv("DEVCLUSTER_DATA") == "" {
		Skip("needs a cluster of our own to hurt")
	}
}

// leader is the pod of the operator that leads, "" when nobody does.
func leader(ctx context.Context) string {
	lease := &coordinationv1.Lease{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: system, Name: "swarm-operator"}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return name
}

// A body is the processes of a pod, as the machine sees them.
type body struct {
	name   string
	folder string // its cgroup in the freezer hierarchy
}

// bodyOf finds the cgroup of a pod. Only nodes of our own cluster have theirs on this machine.
func bodyOf(ctx context.Context, in, pod string) body {
	GinkgoHelper()
	found := &corev1.Pod{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: in, Name: pod}, found)).To(Succeed())
	for _, pattern := range []string{
		"/sys/fs/cgroup/freezer/*/*/kubepods/pod%", "/sys/fs/cgroup/freezer/*/*/kubepods/*/pod%",
		"/sys/fs/cgroup/*/*/kubepods/pod%", "/sys/fs/cgroup/*/*/kubepods/*/pod%",
	} {
		folders, err := filepath.Glob(strings.ReplaceAll(pattern, "%", string(found.UID)))
		Expect(err).NotTo(HaveOccurred())
		for _, folder := range folders {
			if switchOf(folder) != "" {
				return body{pod, folder}
			}
		}
	}
	Fail("no cgroup of pod " + pod + " that can be frozen")
	return body{}
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

// freeze stops every process of the pod at once, and thaw lets them go on.
func (b body) freeze() { b.set("FROZEN", "1") }
func (b body) thaw()   { b.set("THAWED", "0") }

func (b body) set(first, second string) {
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

// kill sends SIGKILL to the processes of the pod's containers whose command line contains the word.
func (b body) kill(word string) {
	GinkgoHelper()
	lists, err := filepath.Glob(filepath.Join(b.folder, "*", "cgroup.procs"))
	Expect(err).NotTo(HaveOccurred())
	killed := 0
	for _, list := range lists {
		ids, err := os.ReadFile(list)
		if err != nil {
			continue // the container is gone
		}
		for id := range strings.FieldsSeq(string(ids)) {
			line, _ := os.ReadFile(filepath.Join("/proc", id, "cmdline"))
			if number, err := strconv.Atoi(id); err == nil && strings.Contains(string(line), word) {
				Expect(syscall.Kill(number, syscall.SIGKILL)).To(Succeed())
				killed++
			}
		}
	}
	Expect(killed).To(BeNumerically(">", 0), "no process of "+b.name+" is "+word)
}

// devcluster runs the program that made our own cluster.
func devcluster(ctx context.Context, arguments ...string) {
	GinkgoHelper()
	program := filepath.Join("..", "..", "..", "bin", "devcluster")
	output, err := exec.CommandContext(ctx, program, append(arguments, "--data", os.Getenv("DEVCLUSTER_DATA"))...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}
