package hostile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// A knowledge is what a hostile program knows: the tasks of others with their true UIDs and epochs, and the term.
type knowledge struct {
	victims []*linkv1.Attempt
	term    int64
}

// numbers are values at which something may overflow, wrap or turn negative.
func (k knowledge) numbers() []int64 {
	return []int64{
		0, 1, -1, k.term, k.term + 1, k.term<<32 | 1, (k.term + 1) << 32, k.term<<32 | math.MaxUint32, math.MaxInt32 - 1, math.MaxInt32,
		math.MaxUint32,
		1 << 32, 1 << 62, math.MaxInt64, math.MinInt64,
	}
}

// texts are texts that a status may not be able to carry.
func (k knowledge) texts() []string {
	return []string{
		"", intruder, intruder + "\nsecond line", "Not A Reason " + intruder, strings.Repeat(intruder, 20), strings.Repeat(intruder, 1000),
		"\x00" + intruder,
		`{"by":"` + intruder + `"}`, `{"by":`, "null", strings.Repeat("[", 4000),
	}
}

// attempts are the true one of each victim and those with every other epoch.
func (k knowledge) attempts() []*linkv1.Attempt {
	var result []*linkv1.Attempt
	for _, victim := range k.victims {
		result = append(result, victim)
		for _, epoch := range append(k.numbers(), victim.GetEpoch()+1, victim.GetEpoch()|math.MaxUint32) {
			forged := proto.CloneOf(victim)
			forged.Epoch = epoch
			result = append(result, forged)
		}
	}
	return result
}

// results are every outcome, known and unknown, of an attempt.
func (k knowledge) results(attempt *linkv1.Attempt) []*linkv1.Result {
	var all []*linkv1.Result
	for _, outcome := range []linkv1.Outcome{0, 1, 2, 3, 4, 5, 6, 7, 8, -1, math.MaxInt32} {
		all = append(all, &linkv1.Result{Attempt: attempt, Outcome: outcome, Value: []byte(`{"by":"` + intruder + `"}`), Reason: "Intruder",
			Message: intruder})
	}
	return all
}

// helloMessages are all kinds of Hello.
func (p *intruderPod) helloMessages(k knowledge) []*linkv1.Hello {
	var result []*linkv1.Hello
	add := func(change func(*linkv1.Hello)) {
		hello := p.Hello()
		hello.Version = intruder
		change(hello)
		result = append(result, hello)
	}
	for _, number := range k.numbers() {
		add(func(h *linkv1.Hello) { h.Term = number })
		add(func(h *linkv1.Hello) { h.Term, h.TermProof = number, bytes.Repeat([]byte{7}, 32) })
		add(func(h *linkv1.Hello) { h.Connection = number })
		add(func(h *linkv1.Hello) { h.Slots, h.Protocol = int32(number), int32(number) })
		add(func(h *linkv1.Hello) { h.Lease = &durationpb.Duration{Seconds: number, Nanos: int32(number)} })
	}
	attempts := k.attempts()
	add(func(h *linkv1.Hello) { h.Running = attempts })
	add(func(h *linkv1.Hello) { h.Running, h.Partial = attempts, true })
	for _, attempt := range k.victims {
		add(func(h *linkv1.Hello) { h.Running, h.Unacknowledged = []*linkv1.Attempt{attempt}, k.results(attempt) })
	}
	for _, victim := range k.victims[:min(len(k.victims), 3)] {
		add(func(h *linkv1.Hello) { h.Namespace = victim.GetNamespace() })
		add(func(h *linkv1.Hello) {
			h.Namespace, h.Agent, h.Swarm = victim.GetNamespace(), honest+"-worker-0", honest
		})
		add(func(h *linkv1.Hello) { h.Swarm = honest })
	}
	add(func(h *linkv1.Hello) { h.Process, h.Draining = "", true })
	add(func(h *linkv1.Hello) { h.Process = strings.Repeat(intruder, 10_000) })
	add(func(h *linkv1.Hello) { h.Features = strings.Split(strings.Repeat(intruder+" ", 20_000), " ") })
	add(func(h *linkv1.Hello) { h.TermProof = make([]byte, 900<<10) })
	return result
}

// helloScript is a script of a Hello, and the agent's next messages.
func helloScript(hello *linkv1.Hello) script {
	return func(yield func(proto.Message) bool) {
		_ = yield(helloMessage(hello)) && yield(heartbeat(1)) &&
			yield(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Complete{Complete: &linkv1.Complete{}}})
	}
}

// forgedResults reports results and progress of the victims' attempts, with every outcome, epoch and text.
func (p *intruderPod) forgedResults(k knowledge) script {
	return func(yield func(proto.Message) bool) {
		if !yield(helloMessage(p.Hello())) || !yield(heartbeat(math.MaxInt64)) {
			return
		}
		for _, attempt := range k.attempts() {
			for n, each := range k.results(attempt) {
				each.Message, each.Value = k.texts()[n%len(k.texts())], []byte(k.texts()[(n+3)%len(k.texts())])
				progress := &linkv1.Progress{Attempt: attempt, Percent: int32(n*1000 - 1000), Message: each.GetMessage()}
				if !yield(result(each)) || !yield(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: progress}}) {
					return
				}
			}
		}
	}
}

// unknownAttempts names thousands of attempts of tasks that do not exist, in Hello and after it.
func (p *intruderPod) unknownAttempts(namespaces ...string) script {
	stray := func(n int) *linkv1.Attempt {
		return &linkv1.Attempt{
			Namespace: namespaces[n%len(namespaces)], Task: fmt.Sprintf("%s-%d", intruder, n), TaskUid: fmt.Sprintf("uid-%d", n), Attempt: 1,
			Epoch: int64(n) + 1,
		}
	}
	return func(yield func(proto.Message) bool) {
		hello := p.Hello()
		for n := range 5000 {
			hello.Running = append(hello.Running, stray(n))
			hello.Unacknowledged = append(hello.Unacknowledged, &linkv1.Result{Attempt: stray(n + 5000), Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED})
		}
		if !yield(helloMessage(hello)) || !yield(heartbeat(1)) {
			return
		}
		value := []byte(`"` + strings.Repeat("x", 4<<10-2) + `"`)
		for n := range 5000 {
			if !yield(result(&linkv1.Result{Attempt: stray(n + 10_000), Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED, Value: value})) {
				return
			}
		}
	}
}

// oversize sends what is too large for a status, for a frame, and for memory.
func (p *intruderPod) oversize(k knowledge) script {
	return func(yield func(proto.Message) bool) {
		if !yield(helloMessage(p.Hello())) || !yield(heartbeat(1)) {
			return
		}
		for _, size := range []int{4<<10 + 1, 100 << 10, 900 << 10, 1 << 20, 8 << 20} {
			for _, attempt := range k.victims[:min(len(k.victims), 10)] {
				large := strings.Repeat("x", size)
				message := &linkv1.Result{Attempt: attempt, Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED, Value: []byte(large),
					Reason: large[:min(size, 1<<10)]}
				if !yield(result(message)) {
					return
				}
			}
		}
	}
}

// malformedMessages sends bytes that are not messages.
func (p *intruderPod) malformedMessages(r *rand.Rand) script {
	return func(yield func(proto.Message) bool) {
		if r.IntN(4) > 0 && !yield(helloMessage(p.Hello())) {
			return
		}
		garbage := make([]byte, r.IntN(2000))
		for n := range garbage {
			garbage[n] = byte(r.Uint32())
		}
		unknown := protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), garbage)
		notText := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType),
			protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), []byte{0xff}))
		for _, raw := range [][]byte{unknown, notText, garbage} {
			message := &emptypb.Empty{}
			message.ProtoReflect().SetUnknown(raw)
			if !yield(message) {
				return
			}
		}
	}
}

func helloMessage(hello *linkv1.Hello) *linkv1.AgentMessage {
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: hello}}
}

func heartbeat(sequence int64) *linkv1.AgentMessage {
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: sequence}}}
}

func result(r *linkv1.Result) *linkv1.AgentMessage {
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: r}}
}
