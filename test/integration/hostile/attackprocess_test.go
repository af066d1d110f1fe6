package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/rawlink"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// targetVariable holds the target of a process that attacks.
const targetVariable = "HOSTILE_TARGET"

// A target is what attackers know. They run in a separate process with the lowest priority, because in a cluster they would run on other
// nodes: the suite measures the work that they cause, not their own processor time.
type target struct {
	Attacks             []string
	Round               int    // distinguishes the objects of several processes
	Home, Link, Webhook string // of the leader
	Tenant, Namespace   string // of the tenant
	TenantSwarm         types.NamespacedName
	HonestSwarms        []types.NamespacedName
	Pods                []podTarget
}

// A podTarget is what a program in a hostile pod can read there.
type podTarget struct {
	Namespace, Swarm, Agent string
	Slots                   int
	Addresses               []string
	TokenFile, CAFile       string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(targetVariable); text != "" {
		if err := runAttack(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runAttack attacks until standard input ends, and writes what it has done to standard output.
func runAttack(text string) error {
	_ = os.WriteFile("/proc/self/autogroup", []byte("19"), 0) // where processes are scheduled by session
	var t target
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return fmt.Errorf("read target: %w", err)
	}
	RegisterFailHandler(func(message string, _ ...int) { panic(message) })
	cluster = testcluster.Connect()
	api = cluster.API
	s, err := t.scene()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var group sync.WaitGroup
	for _, name := range t.Attacks {
		group.Go(func() { attacks[name].run(ctx, s) })
	}
	repeat(ctx, 100*time.Millisecond, func(int) { err = json.NewEncoder(os.Stdout).Encode(counts(t.Attacks)) })
	group.Wait()
	return err
}

// counts returns what attacks have done.
func counts(names []string) map[string]int64 {
	result := map[string]int64{}
	for _, name := range names {
		for _, each := range attacks[name].metrics {
			result[each.name] = each.count.Load()
		}
	}
	return result
}

// target returns what attackers know about the scene.
func (s *environment) target(names []string) target {
	s.rounds++
	t := target{
		Attacks: names, Round: s.rounds, Home: s.leader.home, Link: s.leader.link, Webhook: s.leader.webhook, Tenant: s.user,
		Namespace:   s.tenantNamespace,
		TenantSwarm: types.NamespacedName{Namespace: s.tenantSwarm.Namespace, Name: s.tenantSwarm.Name},
	}
	for _, swarm := range s.honest {
		t.HonestSwarms = append(t.HonestSwarms, types.NamespacedName{Namespace: swarm.Namespace, Name: swarm.Name})
	}
	for _, pod := range s.pods() {
		c := pod.Config
		t.Pods = append(t.Pods, podTarget{c.Namespace, c.Swarm, c.Agent, c.Slots, c.Addresses, c.TokenFile, c.CAFile})
	}
	return t
}

// scene returns the scene as attackers know it.
func (t target) scene() (*environment, error) {
	tenant, err := clientOf(t.Tenant)
	if err != nil {
		return nil, fmt.Errorf("make client of the tenant: %w", err)
	}
	swarm := func(key types.NamespacedName) *v1alpha1.Swarm {
		return &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	}
	s := &environment{
		leader: &leader{home: t.Home, link: t.Link, webhook: t.Webhook}, tenant: tenant, tenantNamespace: t.Namespace,
		tenantSwarm: swarm(t.TenantSwarm), rounds: t.Round,
	}
	for _, key := range t.HonestSwarms {
		s.honest = append(s.honest, swarm(key))
	}
	for _, p := range t.Pods {
		config := agent.Config{
			Namespace: p.Namespace, Swarm: p.Swarm, Agent: p.Agent, Slots: p.Slots, Addresses: p.Addresses, TokenFile: p.TokenFile, CAFile: p.CAFile,
		}
		s.addIntruder(&intruderPod{Agent: rawlink.Agent{Config: config, SourceAddress: hostileAddress}})
	}
	return s, nil
}

// Attackers is a process that runs attacks.
type attackProcess struct {
	command    *exec.Cmd
	alive      io.Closer // the process attacks until this is closed, or until this process ends
	outputRead sync.WaitGroup

	mu     sync.Mutex
	counts map[string]int64
}

// startAttackers starts a process that attacks.
func (s *environment) startAttackers(names []string) *attackProcess {
	GinkgoHelper()
	text, err := json.Marshal(s.target(names))
	Expect(err).NotTo(HaveOccurred())
	a := &attackProcess{command: exec.Command("nice", "-n", "19", os.Args[0]), counts: map[string]int64{}}
	a.command.Env = append(os.Environ(), targetVariable+"="+string(text))
	a.command.Stderr = GinkgoWriter
	a.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	a.alive, err = a.command.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	output, err := a.command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(a.command.Start()).To(Succeed())
	a.outputRead.Go(func() { a.readCounts(output) })
	return a
}

// readCounts keeps the newest counts.
func (a *attackProcess) readCounts(output io.Reader) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		next := map[string]int64{}
		if json.Unmarshal(lines.Bytes(), &next) == nil {
			a.mu.Lock()
			maps.Copy(a.counts, next)
			a.mu.Unlock()
		}
	}
}

// count returns how often attackers have done something.
func (a *attackProcess) count(what string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[what]
}

// stop ends the attack.
func (a *attackProcess) stop() error {
	_ = a.alive.Close()
	a.outputRead.Wait()
	if err := a.command.Wait(); err != nil {
		return fmt.Errorf("attackers: %w", err)
	}
	return nil
}
