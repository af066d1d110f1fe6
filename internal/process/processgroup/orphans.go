package processgroup

import (
	"os/exec"
	"sync"
)

// started holds the programs started here whose exit status will be read.
var started = startedPrograms{pids: map[int]bool{}}

type startedPrograms struct {
	mu       sync.Mutex
	starting int // programs that may have a process, but no known pid yet
	pids     map[int]bool
}

// start starts a program and records it. It does not hold the lock meanwhile: a program on a hanging volume may take forever.
func (p *startedPrograms) start(program *exec.Cmd) error {
	p.mu.Lock()
	p.starting++
	p.mu.Unlock()
	err := program.Start()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	if err == nil {
		p.pids[program.Process.Pid] = true
	}
	return err
}

// forget is called once the exit status was read: the pid may be reused from then on.
func (p *startedPrograms) forget(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pids, pid)
}

// reapOrphan calls a function for an ended child if it is certainly an orphan, and reports whether it did. No program starts meanwhile.
func (p *startedPrograms) reapOrphan(pid int, do func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.starting > 0 || p.pids[pid] {
		return false
	}
	do()
	return true
}
