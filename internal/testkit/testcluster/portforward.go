package testcluster

import (
	"os/exec"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
)

var forwardingLine = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// PortForward is a local address that leads to a port of the installed operator until the spec ends.
func PortForward(target, port string) string {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command("kubectl", "port-forward", "--namespace", SystemNamespace, target, ":"+port), GinkgoWriter,
		GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait() })
	Eventually(session.Out).WithTimeout(20 * time.Second).Should(gbytes.Say(forwardingLine.String()))
	return string(forwardingLine.FindSubmatch(session.Out.Contents())[1])
}
