package explore

// A Transition creates the states that follow one.
type Transition[S any] struct {
	from         S
	state        *S // the one that is being created
	canonicalize func()
	emit         func(Step, S)
}

// NewTransition starts from the given state, and changes it. Before a new state is emitted, tidy may remove what has no effect.
func NewTransition[S any](state *S, tidy func(), emit func(Step, S)) Transition[S] {
	return Transition[S]{from: *state, state: state, canonicalize: tidy, emit: emit}
}

// Step creates one following state by changing a copy. A change that returns false has changed nothing.
func (t *Transition[S]) Step(action, subject, detail uint8, change func() bool) {
	if change() {
		t.canonicalize()
		t.emit(Step{Action: action, Subject: subject, Detail: detail}, *t.state)
		*t.state = t.from
	}
}

// Fault is a step that may happen only a limited number of times.
func (t *Transition[S]) Fault(budget *uint8, step Step, change func() bool) {
	t.Step(step.Action, step.Subject, step.Detail, func() bool {
		if *budget == 0 || !change() {
			return false
		}
		*budget--
		return true
	})
}
