package kubernetes

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("kubectl", func() {
	It("shows the logs of a pod on either node", func(ctx SpecContext) {
		one, other := twoServers()
		create(ctx, one, other)
		for _, pod := range []string{one.Name, other.Name} {
			awaitReady(ctx, pod)
			Expect(kubectl(ctx, "logs", "--namespace", namespace, pod)).To(HavePrefix("serving on "))
		}
	})

	It("runs commands in a pod and passes on how they ended", func(ctx SpecContext) {
		pod := startPod(ctx, idler().pod("idler"))
		Expect(execProbe(ctx, pod, "env", "HOSTNAME")).To(Equal("idler"))

		_, err := execProbe(ctx, pod, "cat", "/missing")
		Expect(exitCode(err)).To(Equal(1))
		Expect(err).To(MatchError(ContainSubstring("no such file")))
		// kubectl's own failures end with 1: only the command can have returned 2.
		_, err = execProbe(ctx, pod, "no-such-command")
		Expect(exitCode(err)).To(Equal(2))
	})
})
