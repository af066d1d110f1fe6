package devcluster

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// auditEntry is one line of the audit log, as far as it shows the user and the request.
type auditEntry struct {
	Verb      string
	User      user
	ObjectRef struct{ Resource, Subresource, Name string }
}

type user struct {
	Username string
	Groups   []string
}

// String returns, for example, "system:kube-scheduler create pods/binding web".
func (d auditEntry) String() string {
	what := strings.TrimSuffix(d.ObjectRef.Resource+"/"+d.ObjectRef.Subresource, "/")
	return strings.TrimSpace(strings.Join([]string{d.User.Username, d.Verb, what, d.ObjectRef.Name}, " "))
}

func (c cluster) auditEntries() []auditEntry {
	GinkgoHelper()
	var entries []auditEntry
	for line := range strings.Lines(string(output(c.commandByFlag("logs", "audit")))) {
		var one auditEntry
		Expect(json.Unmarshal([]byte(line), &one)).To(Succeed(), line)
		entries = append(entries, one)
	}
	return entries
}

// requestsByFlowSchema counts the requests to the first API server by FlowSchema.
func (c cluster) requestsByFlowSchema(ctx context.Context) map[string]int {
	GinkgoHelper()
	text, err := c.client(first).RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	counter := regexp.MustCompile(`(?m)^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="devcluster-([^"]+)".*\} (\d+)$`)
	counts := map[string]int{}
	for _, found := range counter.FindAllStringSubmatch(string(text), -1) {
		counts[found[1]], err = strconv.Atoi(found[2])
		Expect(err).NotTo(HaveOccurred())
	}
	return counts
}

// describeAudit tests users and their requests. It requires that the pod web was created.
func describeAudit(c *cluster) {
	It("logs who did what, each component by a name of its own", func() {
		var told []string
		for _, entry := range c.auditEntries() {
			told = append(told, entry.String())
		}
		Expect(told).To(ContainElements(
			"devcluster:admin create pods web",
			"system:kube-scheduler create pods/binding web",
			"system:node:node-1 patch pods/status web",
			"devcluster:kwok patch nodes/status simulated-1",
			"system:serviceaccount:kube-system:endpointslice-controller create endpointslices",
			HavePrefix("system:kube-controller-manager "),
			"system:kube-proxy watch services",
			"devcluster:coredns watch services",
			"devcluster:provisioner watch persistentvolumeclaims",
		))
	})

	It("gives the masters group only to the API server and the administrator", func() {
		masters := map[string]bool{}
		for _, entry := range c.auditEntries() {
			if slices.Contains(entry.User.Groups, "system:masters") {
				masters[entry.User.Username] = true
			}
		}
		Expect(masters).To(Equal(map[string]bool{"system:apiserver": true, "devcluster:bootstrapper": true}))
	})

	It("counts the requests of each component apart", func(ctx SpecContext) {
		before := c.requestsByFlowSchema(ctx)
		for _, component := range []string{"kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kwok", "coredns", "provisioner",
			"admin"} {
			Expect(before).To(HaveKeyWithValue(component, BeNumerically(">", 0)))
		}
		for range 5 {
			Expect(checkEtcd(ctx, c.client(first))).To(Succeed())
		}
		after := c.requestsByFlowSchema(ctx)
		Expect(after["admin"]).To(BeNumerically(">=", before["admin"]+5))
		Expect(after["coredns"]).To(BeNumerically("<", before["coredns"]+5))
	}, SpecTimeout(timeout))
}
