package processgroup

import (
	"os/exec"
	"sync"
)

// started are the programs that were started here and whose exit status somebody waits for.
var started = programs{pids: map[int]bool{}}

type programs struct {
	mu       sync.Mutex
	starting int // programs that have a process perhaps, but no number yet
	pids     map[int]bool
}

// start starts a program and remembers it. The lock is not held meanwhile: a program on a volume that hangs may take for ever.
func (p *programs) start(program *exec.Cmd) error {
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

// forget is called when the exit status was read: the number may belong to another process from now on.
func (p *programs) forget(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pids, pid)
}

// reap calls a function for a child that has ended if it is surely an orphan, and reports whether it did. No program starts meanwhile.
func (p *programs) reap(pid int, do func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.starting > 0 || p.pids[pid] {
		return false
	}
	do()
	return true
}
