package devcluster

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("a plain user", func() {
	It("gets a control plane with simulated nodes, at the port of choice, and rid of it", func(ctx SpecContext) {
		skipUnlessRoot("to become a plain user")
		before := theMachine()
		home := filepath.Join(testFolder, "home")
		copyBundles(filepath.Join(home, "swarm-operator"))
		Expect(os.Chown(home, unprivileged, unprivileged)).To(Succeed())
		c := newCluster("home/cluster")
		Expect(os.Chown(c.temporary(), unprivileged, unprivileged)).To(Succeed())
		own := copyOf(devclusterProgram)
		call := func(verb string, flags ...string) *exec.Cmd {
			command := c.commandByFlag(append([]string{verb}, flags...)...)
			command.Path = own
			return withEnvironment(asNobody(command), "HOME="+home, "XDG_CACHE_HOME="+home)
		}

		port := freePort()
		runSuccessfully(call("up", "--simulated-nodes", "3", "--port", port))
		Expect(c.status().Server).To(Equal("https://127.0.0.1:" + port))
		Expect(readyNodes(ctx, c.client(first))).To(ConsistOf("simulated-1", "simulated-2", "simulated-3"))
		Expect(runSuccessfully(call("status"))).To(ContainSubstring("3 of 3 Ready"))
		for _, one := range c.processes() {
			Expect(ownerOf(one.pid)).To(BeEquivalentTo(unprivileged), "%v", one.args)
		}

		runSuccessfully(call("down"))
		expectNoLeftovers(c, before)
		Expect(filepath.Glob(filepath.Join(home, "swarm-operator", "cluster-*"))).To(BeEmpty())
	}, SpecTimeout(timeout))
})

func ownerOf(pid int) uint32 {
	GinkgoHelper()
	var stat syscall.Stat_t
	Expect(syscall.Stat(filepath.Join("/proc", itoa(pid)), &stat)).To(Succeed())
	return stat.Uid
}

// copyOf copies a program to where every user may run it.
func copyOf(path string) string {
	GinkgoHelper()
	folder := filepath.Join(testFolder, "programs")
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	to := filepath.Join(folder, filepath.Base(path))
	if !exists(to) {
		Expect(share(path, to)).To(Succeed())
	}
	return to
}

// copyBundles copies every Kubernetes that was built here to where an unprivileged user may read it; the program chooses its own.
func copyBundles(to string) {
	GinkgoHelper()
	bundles, err := filepath.Glob(filepath.Join(cacheFolder(), "kubernetes-*", "kube"))
	Expect(err).NotTo(HaveOccurred())
	Expect(bundles).NotTo(BeEmpty(), "run `make build`")
	for _, kube := range bundles {
		from := filepath.Dir(kube)
		Expect(filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			beside, err := filepath.Rel(cacheFolder(), path)
			if err != nil {
				return err
			}
			return copyEntry(path, filepath.Join(to, beside), entry)
		})).To(Succeed())
	}
	Expect(os.Chown(to, unprivileged, unprivileged)).To(Succeed(), "locks are made here")
}

func copyEntry(from, to string, entry fs.DirEntry) error {
	switch {
	case entry.IsDir():
		return os.MkdirAll(to, 0o755)
	case entry.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	default:
		return share(from, to)
	}
}

// share links a file, or copies it to another disk.
func share(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
