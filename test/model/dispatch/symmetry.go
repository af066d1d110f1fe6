package dispatch

var (
	everyProcess = []uint8{0, 1, 2}
	withoutB     = []uint8{0, 2}
)

// acting returns the processes whose steps have to be taken. While a and b are in the same situation, every step of b mirrors
// a step of a, and so do its successors: it is enough to take those of a.
func (m Model) acting(s *state) []uint8 {
	if m.isSymmetric() && s.isMirrored() {
		return withoutB
	}
	return everyProcess
}

// isSymmetric reports whether everything that can happen to a can happen to b: neither can get a second process or lose its
// object, and caches contain both.
func (m Model) isSymmetric() bool {
	f := m.Scenario.Faults
	return f.ProcessEnds+f.AgentDeletions+f.PodReplacements+f.SecondProcesses+f.Goodbyes == 0 && !m.Scenario.StandbyBehind
}

// isMirrored reports whether the state stays the same when a and b are exchanged.
func (s *state) isMirrored() bool {
	a, b := s.processes[0], s.processes[1]
	b.pod = a.pod
	if a != b || s.store.task.owner != 0 || s.store.leases[0] != s.store.leases[1] ||
		s.store.linked != [2]uint8{1, 2} && s.store.linked != [2]uint8{} {
		return false
	}
	for n := range s.replicas {
		if !s.replicas[n].isMirrored() {
			return false
		}
	}
	return true
}

func (r *replica) isMirrored() bool {
	owned := r.memory.state == reserved || r.memory.state == assigned || r.memory.state == ended
	return !owned && r.gates[0] == r.gates[1] && r.anyProcess&1 == r.anyProcess>>1&1 && r.links[0] == r.links[1] && r.cache.task.owner == 0 &&
		r.write.task.owner == 0
}
