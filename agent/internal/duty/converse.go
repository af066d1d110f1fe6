package duty

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/lease"
	"github.com/swarm-io/swarm-operator/agent/internal/uplink"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// greet sends Hello on a new stream.
func (d *duty) greet(stream *uplink.Stream) {
	d.discard()
	d.stream = stream
	d.helloAt = d.Clock() // before the sending, so that the lease errs on the safe side
	d.lease.Reconnect(d.helloAt)
	d.sequence, d.taken, d.granted, d.leaving = 0, 0, 0, d.ledger.Draining()
	d.connection++
	clear(d.sentAt)
	all := d.ledger.Unacknowledged()
	results := fitting(all)
	d.partial = len(results) < len(all)
	for _, result := range results {
		d.sentAt[result.GetAttempt().Key()] = d.helloAt
	}
	stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: &linkv1.Hello{
		Protocol: linkv1.Protocol, Features: linkv1.Features(), Version: d.Version,
		Namespace: d.Namespace, Swarm: d.Swarm, Agent: d.Agent, Slots: int32(d.Slots),
		Running: d.ledger.Running(), Unacknowledged: results, Draining: d.ledger.Draining(), Term: d.term, TermProof: d.termProof,
		Process: d.Process, Connection: d.connection, Partial: d.partial, Lease: d.leaseTold(),
	}}})
}

// leaseTold is the lease of the last Welcome; nil before the first, and when that lease is over. A shorter one may be stored since.
func (d *duty) leaseTold() *durationpb.Duration {
	switch d.lease.Phase(d.helloAt) {
	case lease.None, lease.Over:
		return nil
	}
	return durationpb.New(d.lease.Length())
}

// fitting are the results, oldest first, that Hello has room for.
func fitting(results []*linkv1.Result) []*linkv1.Result {
	size := 0
	for n, result := range results {
		size += proto.Size(result)
		if n == resultsInHello || size > resultBytesInHello {
			return results[:n]
		}
	}
	return results
}

// complete sends what Hello had no room for. Until then the operator draws no conclusion from what is missing.
func (d *duty) complete() {
	if !d.partial {
		return
	}
	d.partial = false
	for _, result := range d.ledger.Unacknowledged() {
		if _, sent := d.sentAt[result.GetAttempt().Key()]; !sent {
			d.send(result)
		}
	}
	d.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Complete{Complete: &linkv1.Complete{}}})
}

// take obeys the operator. What comes before Welcome, or from a later version, is ignored.
func (d *duty) take(message *linkv1.OperatorMessage) {
	switch kind := message.GetKind().(type) {
	case *linkv1.OperatorMessage_Welcome:
		d.enter(kind.Welcome)
	case *linkv1.OperatorMessage_Redirect:
		d.Log.Info("another operator leads", "address", kind.Redirect.GetAddress())
		d.stream.Redirect(kind.Redirect.GetAddress())
		d.discard()
	case *linkv1.OperatorMessage_Refuse:
		d.Log.Error("the operator refuses this agent", "reason", kind.Refuse.GetReason(), "message", kind.Refuse.GetMessage())
		d.discard()
	default:
		if d.welcomed {
			d.obey(message)
		}
	}
}

func (d *duty) obey(message *linkv1.OperatorMessage) {
	switch kind := message.GetKind().(type) {
	case *linkv1.OperatorMessage_Echo:
		d.lease.Echoed(kind.Echo.GetSequence())
		d.watchdog.SetDeadline(d.lease.End())
	case *linkv1.OperatorMessage_Assign:
		d.assign(kind.Assign)
	case *linkv1.OperatorMessage_Cancel:
		d.cancel(kind.Cancel)
	case *linkv1.OperatorMessage_Drain:
		d.drain(kind.Drain)
	case *linkv1.OperatorMessage_Acknowledge:
		d.acknowledge(kind.Acknowledge.GetAttempt())
	case *linkv1.OperatorMessage_Peers:
		d.peers = nil
		for _, peer := range kind.Peers.GetPeers() {
			d.peers = append(d.peers, peer.GetAgent())
		}
	}
}

// enter begins to work for a leader, unless it is one of the past.
func (d *duty) enter(welcome *linkv1.Welcome) {
	if welcome.GetTerm() < d.term && !welcome.GetResetTerm() || welcome.GetLease().AsDuration() <= 0 {
		d.Log.Warn("leaving an operator that does not lead any more", "term", welcome.GetTerm(), "newest", d.term)
		d.discard()
		return
	}
	d.term, d.termProof = welcome.GetTerm(), welcome.GetTermProof()
	d.welcomed = true
	d.lease.Welcomed(welcome.GetLease().AsDuration())
	d.watchdog.SetDeadline(d.lease.End())
	d.stream.Welcomed()
	d.Log.Info("linked", "term", d.term, "lease", welcome.GetLease().AsDuration(), "running", len(d.attempts))
	d.beat()
	d.complete()
	d.grant()
}

// beat sends a heartbeat.
func (d *duty) beat() {
	d.sequence++
	d.beatAt = d.Clock()
	d.lease.Sent(d.sequence, d.beatAt)
	d.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: d.sequence}}})
}

// grant sends the operator the number of Assigns that it may have sent. The number never shrinks: an Assign that was allowed may
// be under way.
func (d *duty) grant() {
	if !d.welcomed {
		return
	}
	granted, leaving := max(d.granted, d.taken+int64(d.ledger.Free())), d.ledger.Draining()
	if granted == d.granted && leaving == d.leaving {
		return
	}
	d.granted, d.leaving = granted, leaving
	d.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: granted, Draining: leaving}}})
}

func (d *duty) cancel(order *linkv1.Cancel) {
	running := d.attempts[order.GetAttempt().Key()]
	if running == nil {
		return
	}
	why := attempt.Stop{Outcome: linkv1.Outcome_OUTCOME_CANCELLED, Reason: order.GetReason(), Message: "the operator cancelled it", Grace: d.graceOf(order.GetGrace())}
	if order.GetHandBack() {
		why.Outcome, why.Message = linkv1.Outcome_OUTCOME_HANDED_BACK, "the operator asked for it back"
	}
	running.Stop(why)
}

// drain lets what runs finish for a while.
func (d *duty) drain(order *linkv1.Drain) {
	d.Log.Info("draining", "reason", order.GetReason(), "finish", order.GetFinish().AsDuration())
	d.ledger.Drain()
	d.drainAt, d.drainDue = d.Clock()+order.GetFinish().AsDuration(), true
	d.grant()
}

func (d *duty) acknowledge(given *linkv1.Attempt) {
	key := given.Key()
	d.Journal.Acknowledged(given)
	d.ledger.Acknowledge(key)
	delete(d.sentAt, key)
	d.grant() // too many unacknowledged results hold credit back
}

func (d *duty) graceOf(given *durationpb.Duration) time.Duration {
	if given == nil {
		return d.Grace
	}
	return max(0, given.AsDuration())
}
