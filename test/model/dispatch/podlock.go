package dispatch

// LeaderRestarted has a leader that ends and leads again at once, while the leader from before the Lease was deleted still does.
var LeaderRestarted = Scenario{
	Name: "Lease deleted, leader restarts", TwoLeaders: true, Faults: Faults{LeaderCrashes: 1}, Endless: true,
	Connections: 2, Assignments: 1, Terms: 3, Leases: [2]uint8{1, 1},
}

// takeOverLease makes the next process of a pod the leader at once, although the Lease of the previous process has not
// expired. The pod lock proves that the previous one has ended. It proves nothing about other leaders: a process that took
// the Lease while a former leader may still act disowns its successor, which then waits until the Lease has expired.
func (t *transition) takeOverLease(r uint8) bool {
	current := t.store.lease
	return current.ticksLeft > 0 && current.holder == r+1 && !current.disowned && t.becomeLeader(r)
}
