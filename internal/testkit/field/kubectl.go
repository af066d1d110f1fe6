package field

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// FromRoot is the path of a file of the repository.
func FromRoot(elements ...string) string {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", ".."}, elements...)...))
	Expect(err).NotTo(HaveOccurred())
	return path
}

// Kubectl runs the real program, like a user with our plugin, and returns its whole output.
func Kubectl(ctx context.Context, arguments ...string) (string, error) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "kubectl", arguments...)
	command.Env = append(os.Environ(), "PATH="+FromRoot("bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w: %s", strings.Join(arguments, " "), err, output)
	}
	return string(output), nil
}

// Said is the output of a kubectl command that must succeed.
func Said(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	output, err := Kubectl(ctx, arguments...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

// InstallKinds has the cluster serve our kinds from the repository.
func InstallKinds(ctx context.Context) {
	GinkgoHelper()
	Said(ctx, "apply", "--server-side", "--force-conflicts", "--filename", FromRoot("deploy", "crds"))
	Said(ctx, "wait", "--for=condition=Established", "--filename", FromRoot("deploy", "crds"))
}

// ShowFailure shows, if the spec has failed, what commands say of its namespace, what happened there, and what the operator does.
func ShowFailure(ctx context.Context, namespace string, commands ...string) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, command := range append(commands, "get events") {
		show(ctx, append(strings.Fields(command), "--namespace", namespace)...)
	}
	show(ctx, "get", "pods,leases", "--namespace", System, "--output", "wide")
	show(ctx, "logs", "--namespace", System, "--selector", selector, "--tail", "60", "--prefix")
}

func show(ctx context.Context, arguments ...string) {
	seen, err := Kubectl(ctx, arguments...)
	if err != nil {
		seen = err.Error()
	}
	GinkgoWriter.Println(seen)
}

// Raceless fails the spec if the race detector has found something in an operator that is built with it.
func Raceless(ctx context.Context) {
	GinkgoHelper()
	RacelessLogs(ctx, "--namespace", System, "--selector", selector)
	RacelessLogs(ctx, "--namespace", System, "--selector", selector, "--previous", "--ignore-errors")
}

// RacelessLogs is the same for other pods, named as `kubectl logs` wants them.
func RacelessLogs(ctx context.Context, pods ...string) {
	GinkgoHelper()
	said, err := Kubectl(ctx, append([]string{"logs", "--tail", "-1"}, pods...)...)
	if err != nil && !strings.Contains(said, "previous terminated container") {
		GinkgoWriter.Println(err)
	}
	Expect(said).NotTo(ContainSubstring("DATA RACE"))
}
