package testcluster

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	gtypes "github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// PassedOnForeignCluster runs the specs of the running suite that match the focus again, as on a cluster that is not ours: they get only a
// kubeconfig, whose context has another name. It returns the names of the specs that passed; none may fail.
func PassedOnForeignCluster(ctx context.Context, focus string) []string {
	GinkgoHelper()
	report := filepath.Join(GinkgoT().TempDir(), "report.json")
	output, err := foreignClusterCommand(ctx, "-ginkgo.focus="+focus, "-ginkgo.json-report="+report).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return passedSpecs(report)
}

// foreignClusterCommand returns a command that runs the suite with nothing but a kubeconfig.
func foreignClusterCommand(ctx context.Context, arguments ...string) *exec.Cmd {
	GinkgoHelper()
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	Expect(err).NotTo(HaveOccurred())
	config.Contexts = map[string]*clientcmdapi.Context{"theirs": config.Contexts[config.CurrentContext]}
	config.CurrentContext = "theirs"
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "config")
	Expect(clientcmd.WriteToFile(*config, kubeconfig)).To(Succeed())
	command := exec.CommandContext(ctx, os.Args[0], arguments...)
	command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "KUBECONFIG=") || strings.HasPrefix(variable, "DEVCLUSTER_")
	}), "KUBECONFIG="+kubeconfig)
	return command
}

// passedSpecs returns the names of the specs that passed according to a report.
func passedSpecs(report string) []string {
	GinkgoHelper()
	text, err := os.ReadFile(report)
	Expect(err).NotTo(HaveOccurred())
	var reports []gtypes.Report
	Expect(json.Unmarshal(text, &reports)).To(Succeed())
	var names []string
	for _, one := range reports {
		for _, spec := range one.SpecReports.WithLeafNodeType(gtypes.NodeTypeIt) {
			if spec.State == gtypes.SpecStatePassed {
				names = append(names, spec.FullText())
			}
		}
	}
	return names
}
