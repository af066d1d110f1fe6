package cli

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("kubectl swarm rollback", Ordered, func() {
	It("lists the revisions that are kept, and not those of the StatefulSet", func() {
		out := runSuccessfully("history pool cameras")
		Expect(out).To(MatchRegexp(row("REVISION AGE STRATEGY WORKERS JOBS MARK")))
		Expect(out).To(MatchRegexp(`(?m)^2 +\d+s +Sticky +2 +2 +-$`))
		Expect(out).To(MatchRegexp(`(?m)^3 +\d+s +Sticky +2 +27 +current$`))
		Expect(runSuccessfully("history pool cameras -o name")).
			To(Equal("controllerrevision.apps/cameras-1\ncontrollerrevision.apps/cameras-2\ncontrollerrevision.apps/cameras-3\n"))
	})

	It("shows what going back would move, and does not go", func(ctx SpecContext) {
		before := snapshot(ctx)
		Expect(runSuccessfully("rollback pool cameras --to 2 --dry-run")).
			To(HavePrefix("2 jobs over 2 workers: 2 move, 0 stay, 25 end; 2 published configs\n"))
		Expect(snapshot(ctx)).To(Equal(before))
	})

	It("pins an earlier revision, and writes nothing else", func(ctx SpecContext) {
		before := cameras(ctx)
		Expect(runSuccessfully("rollback pool cameras --to 2")).
			To(Equal("workerpool.swarm.io/cameras pinned to revision 2: 2 jobs over 2 workers: 2 move, 0 stay, 25 end; 2 published configs\n"))
		after := cameras(ctx)
		Expect(after.Spec.RollbackTo).To(Equal(int64(2)))
		after.Spec.RollbackTo = 0
		Expect(after.Spec).To(Equal(before.Spec))
		Expect(after.Status).To(Equal(before.Status))
		Expect(runSuccessfully("history pool cameras")).To(MatchRegexp(`(?m)^2 +\S+ +Sticky +2 +2 +pinned$`))
		Expect(runSuccessfully("plan pool cameras")).To(ContainSubstring("the pool is pinned to revision 2"))
	})

	It("names the revisions there are when one is asked for that is not", func(ctx SpecContext) {
		got := runCommand("rollback", "pool", "cameras", "--to", "9")
		Expect(got).To(Equal(commandResult{1, "", "kubectl swarm: revision 9 of pool \"cameras\" is not kept: choose one of 1, 2, 3\n"}))
		Expect(cameras(ctx).Spec.RollbackTo).To(Equal(int64(2)))
	})

	It("lets the pool go on", func(ctx SpecContext) {
		Expect(runSuccessfully("rollback pool cameras --undo")).
			To(HavePrefix("workerpool.swarm.io/cameras no longer pinned to revision 2: 27 jobs"))
		pool := cameras(ctx)
		Expect(pool.Spec.RollbackTo).To(BeZero())
		text, err := json.Marshal(pool.Spec)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).NotTo(ContainSubstring("rollbackTo"))
		Expect(runSuccessfully("rollback pool cameras --to 0")).To(HavePrefix("workerpool.swarm.io/cameras was not pinned"))
	})
})
