package testcluster

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

// FromRoot returns the path of a file of the repository.
func FromRoot(elements ...string) string {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", ".."}, elements...)...))
	Expect(err).NotTo(HaveOccurred())
	return path
}

// Kubectl runs the real kubectl with our plugin, and returns its whole output.
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

// MustKubectl returns the output of a kubectl command that must succeed.
func MustKubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	output, err := Kubectl(ctx, arguments...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

// InstallCRDs installs the CRDs of the repository.
func InstallCRDs(ctx context.Context) {
	GinkgoHelper()
	MustKubectl(ctx, "apply", "--server-side", "--force-conflicts", "--filename", FromRoot("deploy", "crds"))
	MustKubectl(ctx, "wait", "--for=condition=Established", "--filename", FromRoot("deploy", "crds"))
}

// ReportFailure prints, if the spec has failed, the output of commands for its namespace, its events, and the logs of the operator.
func ReportFailure(ctx context.Context, namespace string, commands ...string) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, command := range append(commands, "get events") {
		reportCommand(ctx, append(strings.Fields(command), "--namespace", namespace)...)
	}
	reportCommand(ctx, "get", "pods,leases", "--namespace", SystemNamespace, "--output", "wide")
	reportCommand(ctx, "logs", "--namespace", SystemNamespace, "--selector", operatorSelector, "--tail", "60", "--prefix")
}

func reportCommand(ctx context.Context, arguments ...string) {
	seen, err := Kubectl(ctx, arguments...)
	if err != nil {
		seen = err.Error()
	}
	GinkgoWriter.Println(seen)
}

// ExpectNoDataRaces fails the spec if an operator built with the race detector has reported a race.
func ExpectNoDataRaces(ctx context.Context) {
	GinkgoHelper()
	ExpectNoDataRacesIn(ctx, "--namespace", SystemNamespace, "--selector", operatorSelector)
	ExpectNoDataRacesIn(ctx, "--namespace", SystemNamespace, "--selector", operatorSelector, "--previous", "--ignore-errors")
}

// ExpectNoDataRacesIn does the same for other pods, named as for `kubectl logs`.
func ExpectNoDataRacesIn(ctx context.Context, pods ...string) {
	GinkgoHelper()
	said, err := Kubectl(ctx, append([]string{"logs", "--tail", "-1"}, pods...)...)
	if err != nil && !strings.Contains(said, "previous terminated container") {
		GinkgoWriter.Println(err)
	}
	Expect(said).NotTo(ContainSubstring("DATA RACE"))
}
