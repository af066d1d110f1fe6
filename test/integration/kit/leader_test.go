package kit_test

import (
	"fmt"
	"net/http"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("two replicas", func() {
	var (
		namespace  string
		began      time.Time
		old, other *replica
	)
	BeforeEach(func(ctx SpecContext) {
		testcluster.AuditLog()
		namespace, began = createNamespace(ctx), time.Now()
		pod := "pod-" + namespace
		old, other = run(namespace, pod+"-a"), nil
		Eventually(holder(ctx, namespace)).Should(Equal(old.pod), "identity begins with POD_NAME")
		other = run(namespace, pod+"-b")
		busy(ctx, namespace)
		Eventually(getStatus(other.probes, "/readyz")).Should(Equal(200), "a standby is ready, too")
		Eventually(writes).WithArguments("webapp/"+old.pod, began).ShouldNot(BeEmpty())
		Expect(writes("webapp/"+other.pod, began)).To(BeEmpty(), "only the leader acts")
	})

	// succeeds waits until the other replica holds the Lease and acts, and returns how long it took until the API server received its first
	// write.
	succeeds := func(ctx SpecContext) time.Duration {
		GinkgoHelper()
		from := time.Now()
		Eventually(holder(ctx, namespace)).Should(Equal(other.pod))
		taken := time.Since(from)
		Eventually(writes).WithArguments("webapp/"+other.pod, began).Should(Not(BeEmpty()))
		acted := writes("webapp/"+other.pod, began)[0].Received.Sub(from)
		const unit = 10 * time.Millisecond
		AddReportEntry("takeover", fmt.Sprintf("lease after %s, first write after %s", taken.Round(unit), acted.Round(unit)))
		return acted
	}
	// apart checks that there is no write of the old leader after the first one of the new leader. A write that was half sent when its
	// process was frozen fails late, when that process wakes up and closes the connection.
	apart := func() {
		GinkgoHelper()
		first := writes("webapp/"+other.pod, began)[0]
		for _, write := range writes("webapp/"+old.pod, began) {
			if write.Response.Code >= http.StatusBadRequest && write.Received.Before(first.Received) {
				continue
			}
			Expect(write.Answered).To(BeTemporally("<", first.Received), "%v of the old leader came after %v of the new", write, first)
		}
	}

	It("[K10/leader-killed] leader killed with -9: the other takes over within 20 s, no write overlaps", func(ctx SpecContext) {
		old.signal(syscall.SIGKILL)
		Expect(succeeds(ctx)).To(BeNumerically("<", 20*time.Second))
		apart()
	})

	It("[K10/graceful-stop] leader stopped with SIGTERM: the other takes over within 3 s, no write overlaps", func(ctx SpecContext) {
		old.signal(syscall.SIGTERM)
		Expect(succeeds(ctx)).To(BeNumerically("<", 3*time.Second))
		Eventually(old.exited).Should(Receive(BeNil()), "it ended well")
		apart()
	})

	It("[K11/no-overlap] leader frozen until the other has written for a while, and woken: it writes nothing more, and ends",
		func(ctx SpecContext) {
			old.signal(syscall.SIGSTOP)
			succeeds(ctx)
			written := func() int { return len(writes("webapp/"+other.pod, began)) }
			Eventually(written).Should(BeNumerically(">=", written()+20), "the other leads, and has work to do")
			Expect(holder(ctx, namespace)()).To(Equal(other.pod))
			old.signal(syscall.SIGCONT)
			woken := time.Now()
			Eventually(old.exited).Should(Receive(HaveOccurred()), "it ended by itself, with an error")
			AddReportEntry("woken", fmt.Sprintf("ended %s after it was woken", time.Since(woken).Round(10*time.Millisecond)))
			apart()
			Expect(writes("webapp/"+old.pod, woken)).To(BeEmpty(), "not even one that failed")
			Consistently(holder(ctx, namespace), 2*time.Second).Should(Equal(other.pod), "it did not give back what it did not hold")
			Expect(old.log.String()).To(ContainSubstring("not leading"))
		})
})
