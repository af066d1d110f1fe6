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

// PortForward forwards a local address to a port of the installed operator until the spec ends, and returns the address.
func PortForward(target, port string) string {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command("kubectl", "port-forward", "--namespace", SystemNamespace, target, ":"+port), GinkgoWriter,
		GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait() })
	Eventually(session.Out).WithTimeout(20 * time.Second).Should(gbytes.Say(forwardingLine.String()))
	return string(forwardingLine.FindSubmatch(session.Out.Contents())[1])
}
