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
	"github.com/swarm-io/swarm-operator/internal/testkit/field"
	"github.com/swarm-io/swarm-operator/internal/testkit/rawlink"
)

// targetVariable holds the target of a process that attacks.
const targetVariable = "HOSTILE_TARGET"

// A target is what attackers know. They run in a process of their own with the lowest priority, because in a cluster they would run on
// other nodes: what is judged is the work that they cause, and not the processor time that they take themselves.
type target struct {
	Attacks             []string
	Round               int    // distinguishes the objects of several processes
	Home, Link, Webhook string // of the leader
	Tenant, Namespace   string // of the tenant
	Own                 types.NamespacedName
	Honest              []types.NamespacedName
	Pods                []podTarget
}

// A podTarget is what a program in a hostile pod finds there.
type podTarget struct {
	Namespace, Swarm, Agent string
	Slots                   int
	Addresses               []string
	TokenFile, CAFile       string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(targetVariable); text != "" {
		if err := attackTarget(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// attackTarget attacks until standard input ends, and writes what it has done to standard output.
func attackTarget(text string) error {
	_ = os.WriteFile("/proc/self/autogroup", []byte("19"), 0) // where processes are scheduled by session
	var t target
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return fmt.Errorf("read target: %w", err)
	}
	RegisterFailHandler(func(message string, _ ...int) { panic(message) })
	cluster = field.Connect()
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
	var all sync.WaitGroup
	for _, name := range t.Attacks {
		all.Go(func() { attacks[name].run(ctx, s) })
	}
	repeat(ctx, 100*time.Millisecond, func(int) { err = json.NewEncoder(os.Stdout).Encode(counts(t.Attacks)) })
	all.Wait()
	return err
}

// counts returns what attacks have done.
func counts(names []string) map[string]int64 {
	all := map[string]int64{}
	for _, name := range names {
		for _, each := range attacks[name].tally {
			all[each.what] = each.done.Load()
		}
	}
	return all
}

// target returns what attackers know about the scene.
func (s *scene) target(names []string) target {
	s.rounds++
	t := target{
		Attacks: names, Round: s.rounds, Home: s.leader.home, Link: s.leader.link, Webhook: s.leader.webhook, Tenant: s.user, Namespace: s.in,
		Own: types.NamespacedName{Namespace: s.own.Namespace, Name: s.own.Name},
	}
	for _, swarm := range s.honest {
		t.Honest = append(t.Honest, types.NamespacedName{Namespace: swarm.Namespace, Name: swarm.Name})
	}
	for _, pod := range s.pods() {
		c := pod.Config
		t.Pods = append(t.Pods, podTarget{c.Namespace, c.Swarm, c.Agent, c.Slots, c.Addresses, c.TokenFile, c.CAFile})
	}
	return t
}

// scene returns the scene as attackers know it.
func (t target) scene() (*scene, error) {
	tenant, err := clientOf(t.Tenant)
	if err != nil {
		return nil, fmt.Errorf("make client of the tenant: %w", err)
	}
	swarm := func(key types.NamespacedName) *v1alpha1.Swarm {
		return &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	}
	s := &scene{
		leader: &leader{home: t.Home, link: t.Link, webhook: t.Webhook}, tenant: tenant, in: t.Namespace, own: swarm(t.Own), rounds: t.Round,
	}
	for _, key := range t.Honest {
		s.honest = append(s.honest, swarm(key))
	}
	for _, p := range t.Pods {
		config := agent.Config{
			Namespace: p.Namespace, Swarm: p.Swarm, Agent: p.Agent, Slots: p.Slots, Addresses: p.Addresses, TokenFile: p.TokenFile, CAFile: p.CAFile,
		}
		s.enlist(&intruderPod{Agent: rawlink.Agent{Config: config, SourceAddress: hostileAddress}})
	}
	return s, nil
}

// Attackers are a process that attacks.
type attackers struct {
	command *exec.Cmd
	alive   io.Closer // the process attacks until this is closed, or until this process ends
	heard   sync.WaitGroup

	mu   sync.Mutex
	done map[string]int64
}

// startAttackers starts a process that attacks.
func (s *scene) startAttackers(names []string) *attackers {
	GinkgoHelper()
	text, err := json.Marshal(s.target(names))
	Expect(err).NotTo(HaveOccurred())
	a := &attackers{command: exec.Command("nice", "-n", "19", os.Args[0]), done: map[string]int64{}}
	a.command.Env = append(os.Environ(), targetVariable+"="+string(text))
	a.command.Stderr = GinkgoWriter
	a.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	a.alive, err = a.command.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	output, err := a.command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(a.command.Start()).To(Succeed())
	a.heard.Go(func() { a.hear(output) })
	return a
}

// hear keeps the newest counts.
func (a *attackers) hear(output io.Reader) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		next := map[string]int64{}
		if json.Unmarshal(lines.Bytes(), &next) == nil {
			a.mu.Lock()
			maps.Copy(a.done, next)
			a.mu.Unlock()
		}
	}
}

// count returns how often attackers have done something.
func (a *attackers) count(what string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done[what]
}

// stop ends the attack.
func (a *attackers) stop() error {
	_ = a.alive.Close()
	a.heard.Wait()
	if err := a.command.Wait(); err != nil {
		return fmt.Errorf("attackers: %w", err)
	}
	return nil
}
