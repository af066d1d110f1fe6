// Package linkv1 is the protocol between agents and the operator, generated from link.proto, with the names that both ends must agree on.
// It also holds the requests between replicas of the operator at the same port, from placement.proto. It promises to stay readable for
// programs of earlier versions: see the rules in link.proto and the frozen copy in internal/link/testdata that a test compares it with.
package linkv1

// Protocol versions. An agent offers the highest that it supports, the operator answers with the highest that both support.
const (
	Protocol       int32 = 1
	OldestProtocol int32 = 1
)

// Features that were added to protocol 1. A side that does not name a feature never receives messages that belong to it.
const (
	// FeaturePeers allows Peers.
	FeaturePeers = "peers"
	// FeatureHandBack allows Cancel with hand_back.
	FeatureHandBack = "hand-back"
)

// Features are all features that this version of the code knows.
func Features() []string { return []string{FeatureHandBack, FeaturePeers} }

// NoItem is the item of an AttemptKey of a task without items.
const NoItem int32 = -1

// A WorkKey identifies a piece of work, however often it is tried. It can be a key of a map.
type WorkKey struct {
	TaskUID string
	Item    int32 // NoItem for a task without items
}

// An AttemptKey identifies one assignment of a piece of work. It can be a key of a map.
type AttemptKey struct {
	WorkKey
	Attempt int32
	Epoch   int64
}

// Key returns the attempt as a key of a map.
func (x *Attempt) Key() AttemptKey {
	item := NoItem
	if x != nil && x.Item != nil {
		item = x.GetItem()
	}
	return AttemptKey{WorkKey: WorkKey{TaskUID: x.GetTaskUid(), Item: item}, Attempt: x.GetAttempt(), Epoch: x.GetEpoch()}
}
