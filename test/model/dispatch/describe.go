package dispatch

import (
	"fmt"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

var processNames = [processes]string{"a", "b", "a'"}

var replicaNames = [replicas]string{"operator-1", "operator-2"}

var outcomeNames = [...]string{succeeded: "success", failed: "failure", handedBack: "hand-back", lost: "loss"}

func (e epoch) String() string { return fmt.Sprintf("%d.%d", e>>4, e&15) }

// Sentences for steps without further details. %s is the name of the step's process or replica.
var worldSentences = map[uint8]string{
	tick:               "a tick passes",
	tickWithoutRenewal: "a tick passes without a renewal of the Lease",
	deleteLease:        "the Lease is deleted",
	deleteAgent:        "the Agent object of a is deleted, and created again without its status",
	replacePod:         "the pod of a is deleted by force and replaced by one of the same name, a'; the process of a lives on",
	startProcess:       "another process of a, a', starts in the same pod; the first one lives on",
	cancelTask:         "the user cancels the task",
	restartContainer:   "the container of a restarts in the same pod, as process a'",
}

var processSentences = map[uint8]string{
	endProcess:    "the process of %s ends",
	suspend:       "%s is suspended",
	resume:        "%s resumes",
	fence:         "%s stops its program because its lease is over",
	sayGoodbye:    "%s says goodbye",
	sendHeartbeat: "%s sends a heartbeat",
}

var replicaSentences = map[uint8]string{
	elect:            "%s takes the Lease",
	takeOver:         "the next process of %s takes over the Lease of the one before, which has ended",
	openTerm:         "%s opens its term",
	observeTask:      "%s reads the task from its cache",
	storeAssignment:  "%s writes the assignment that it has sent",
	storeCancel:      "%s writes that the task is cancelled",
	stopAttempt:      "%s tells the holder of the cancelled task to stop",
	giveUpTerminated: "%s takes the process of the attempt for dead",
	crashLeader:      "%s crashes and restarts as a standby",
	recreateLease:    "%s finds its Lease deleted and creates it again",
	releaseLease:     "%s stops in order, gives the Lease back and restarts as a standby",
	stopLeading:      "%s stops leading and restarts as a standby",
	applyWrite:       "the write of %s reaches the API server",
	loseResponse:     "the write of %s reaches the API server, and the answer is lost",
	dropWrite:        "the write of %s never arrives",
	syncTask:         "the cache of %s hears of the newest task",
	syncPods:         "the caches of %s hear of the newest pods and agents",
}

// Describe describes a step from the state in a sentence.
func (m Model) Describe(s state, step explore.Step) string {
	if sentence, ok := worldSentences[step.Action]; ok {
		return sentence
	}
	if sentence, ok := processSentences[step.Action]; ok {
		return fmt.Sprintf(sentence, processNames[step.Subject])
	}
	if sentence, ok := replicaSentences[step.Action]; ok {
		return fmt.Sprintf(sentence, replicaNames[step.Subject])
	}
	if step.Action >= elect {
		return m.describeLeader(s, step)
	}
	return s.describeMessage(step)
}

func (m Model) describeLeader(s state, step explore.Step) string {
	r, name := &s.replicas[step.Subject], replicaNames[step.Subject]
	switch step.Action {
	case storeLink:
		return fmt.Sprintf("%s stores that the process of %s is linked", name, processNames[step.Detail])
	case storeLease:
		return fmt.Sprintf("%s stores that the lease of %s is %d ticks", name, processNames[step.Detail], m.Scenario.Leases[step.Subject])
	case assignTask:
		return fmt.Sprintf("%s gives attempt %s to %s", name, epochOf(r.term, r.sequence+1), processNames[step.Detail])
	case expire:
		return fmt.Sprintf("%s has not heard %s for lease and margin", name, processNames[step.Detail])
	default:
		return fmt.Sprintf("%s writes the %s of attempt %s", name, outcomeNames[r.memory.outcome], r.memory.epoch)
	}
}

func (s state) describeMessage(step explore.Step) string {
	p, name := &s.processes[step.Subject], processNames[step.Subject]
	replicaName := replicaNames[min(step.Detail, replicas-1)]
	switch step.Action {
	case finishProgram:
		return fmt.Sprintf("attempt %s on %s ends with %s", p.running, name, outcomeNames[step.Detail])
	case dial, dialPartial:
		greeting := message{kind: hello, epoch: p.running, ended: p.ended, partial: step.Action == dialPartial}
		return fmt.Sprintf("%s opens connection %d to %s and sends %s", name, p.current.number+1, replicaName, greeting)
	case sendResult:
		return fmt.Sprintf("%s sends the result of attempt %s", name, p.ended)
	case receiveAtAgent:
		return fmt.Sprintf("%s receives %s", name, p.current.toAgent[0])
	case echoEarly:
		return fmt.Sprintf("%s echoes the heartbeat of %s, of which it has not read the Hello", replicaName, name)
	case receiveOnFormer:
		return fmt.Sprintf("%s receives %s of connection %d of %s, which %s has given up", replicaName, p.former.toReplica[0], p.former.number,
			name, name)
	default:
		return fmt.Sprintf("%s receives %s of connection %d of %s", replicaName, p.current.toReplica[0], p.current.number, name)
	}
}

func (m message) String() string {
	switch m.kind {
	case hello:
		return m.greeting()
	case heldHello:
		return "what was in " + m.greeting()
	case confirm:
		return "the answer to Welcome"
	case heartbeat:
		return fmt.Sprintf("a heartbeat (sent %d ticks ago)", m.age)
	case result:
		return fmt.Sprintf("the result of attempt %s", m.epoch)
	case goodbye:
		return "goodbye"
	case welcome:
		return fmt.Sprintf("Welcome (its Hello was sent %d ticks ago, the lease is %d)", m.age, m.lease)
	case echo:
		return fmt.Sprintf("an echo (its heartbeat was sent %d ticks ago, the lease is %d)", m.age, m.lease)
	case assign:
		return fmt.Sprintf("the assignment of attempt %s", m.epoch)
	case cancel:
		return fmt.Sprintf("the cancellation of attempt %s", m.epoch)
	default:
		return fmt.Sprintf("the acknowledgement of attempt %s", m.epoch)
	}
}

func (m message) greeting() string {
	text := "Hello"
	if m.partial {
		text = "a partial Hello"
	}
	switch {
	case m.epoch != 0:
		return fmt.Sprintf("%s (runs attempt %s)", text, m.epoch)
	case m.ended != 0 && m.partial:
		return fmt.Sprintf("%s (the result of attempt %s does not fit)", text, m.ended)
	case m.ended != 0:
		return fmt.Sprintf("%s (has the result of attempt %s)", text, m.ended)
	}
	return text + " (has nothing)"
}
