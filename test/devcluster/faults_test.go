package devcluster

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func writeNote(ctx context.Context, client kubernetes.Interface, name string) error {
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, note, metav1.CreateOptions{})
	return err
}

func readNote(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
	return err
}

// timedOut reports whether the client or the API server timed out. The API server aborts a response that it has begun.
func timedOut(err error) bool {
	var late net.Error
	return apierrors.IsTimeout(err) || errors.As(err, &late) && late.Timeout() ||
		strings.Contains(err.Error(), "INTERNAL_ERROR; received from peer")
}

// describeSecondServer tests two API servers, and the link through which the second one reaches etcd.
func describeSecondServer(c *cluster) {
	It("serves the same objects from both API servers", func(ctx SpecContext) {
		firstClient, secondClient := c.client(first), c.client(second)
		Expect(writeNote(ctx, firstClient, "by-the-first")).To(Succeed())
		Expect(readNote(ctx, secondClient, "by-the-first")).To(Succeed())
		Expect(writeNote(ctx, secondClient, "by-the-second")).To(Succeed())
		Expect(readNote(ctx, firstClient, "by-the-second")).To(Succeed())
	}, SpecTimeout(timeout))

	It("parts the second API server from etcd, and not the first", func(ctx SpecContext) {
		firstClient, secondClient := c.client(first), c.client(second)
		runSuccessfully(c.commandByFlag("pause", "etcd-link"))
		DeferCleanup(func() { runSuccessfully(c.commandByFlag("resume", "etcd-link")) })
		Expect(writeNote(ctx, secondClient, "into-the-void")).To(MatchError(timedOut, "no answer"))
		Expect(readNote(ctx, secondClient, "by-the-first")).To(MatchError(timedOut, "no answer"))
		Expect(writeNote(ctx, firstClient, "while-parted")).To(Succeed())
		runSuccessfully(c.commandByFlag("resume", "etcd-link"))
		Eventually(readNote).WithContext(ctx).WithArguments(secondClient, "while-parted").Should(Succeed())
		Eventually(writeNote).WithContext(ctx).WithArguments(secondClient, "after-parting").Should(Succeed())
	}, SpecTimeout(timeout))
}

// describeFaults breaks the control plane and lets it recover.
func describeFaults(c *cluster) {
	It("freezes an API server, which then does not answer, and lets it go on", func(ctx SpecContext) {
		client := c.client(first)
		runSuccessfully(c.commandByFlag("pause", "kube-apiserver"))
		DeferCleanup(func() { runSuccessfully(c.commandByFlag("resume", "kube-apiserver")) })
		Expect(checkEtcd(ctx, client)).To(MatchError(timedOut, "no answer"))
		session := finish(c.commandByFlag("status"))
		Expect(session).To(gexec.Exit(1), "not every component runs")
		Expect(string(session.Out.Contents())).To(MatchRegexp(`(?m)^kube-apiserver +paused +\d+$`))
		runSuccessfully(c.commandByFlag("resume", "kube-apiserver"))
		Eventually(checkEtcd).WithContext(ctx).WithArguments(client).Should(Succeed())
		Expect(c.component("kube-apiserver").State).To(Equal("running"))
	}, SpecTimeout(timeout))

	It("restarts the scheduler, which then schedules", func(ctx SpecContext) {
		before := c.component("kube-scheduler").PID
		runSuccessfully(c.commandByFlag("restart", "kube-scheduler"))
		Eventually(c.component).WithArguments("kube-scheduler").
			Should(And(HaveField("State", "running"), HaveField("PID", Not(Equal(before)))))
		c.kubectl("run", "late", "--image="+imageName(probeTarball()), "--image-pull-policy=Never", "--", "sleep")
		Eventually(phaseOf).WithContext(ctx).WithArguments(c.client(first), "late").Should(Equal(corev1.PodRunning))
	}, SpecTimeout(timeout))

	It("starts a component again that ended by itself", func() {
		before := c.component("kwok").PID
		Expect(syscall.Kill(before, syscall.SIGKILL)).To(Succeed())
		Eventually(c.component).WithArguments("kwok").Should(And(HaveField("State", "running"), HaveField("PID", Not(Equal(before)))))
	})

	It("keeps a killed component down until it is restarted, and etcd keeps its data", func(ctx SpecContext) {
		client := c.client(first)
		runSuccessfully(c.commandByFlag("kill", "etcd"))
		// Longer than the back-off of a component that exited.
		Consistently(c.component).WithArguments("etcd").WithTimeout(2 * time.Second).WithPolling(500 * time.Millisecond).
			Should(Equal(component{Name: "etcd", State: "killed"}))
		Expect(checkEtcd(ctx, client)).NotTo(Succeed())
		Expect(runExpectingFailure(c.commandByFlag("pause", "etcd"))).To(ContainSubstring("run `devcluster restart etcd` first"))
		runSuccessfully(c.commandByFlag("restart", "etcd"))
		Eventually(readNote).WithContext(ctx).WithArguments(client, "by-the-first").Should(Succeed())
	}, SpecTimeout(timeout))
}
