package kit

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Terms stores terms outside of the Lease. The Lease counts its transitions, and the count restarts when the Lease is deleted: without
// other storage the next leader would get a term that another leader had before.
type Terms interface {
	// Newest returns the newest term that was claimed, 0 if there is none.
	Newest(ctx context.Context) (int64, error)
	// Claim stores and returns a term that is above every claimed term, and at least the given one.
	Claim(ctx context.Context, atLeast int64) (int64, error)
}

// assignTerm sets the term of the record. A term is claimed before the Lease is taken with it, so before anything is done in that term. A
// term that was raised since is claimed with the next renewal. A process that lost the race for the Lease keeps its claim for the next
// time.
func (l *leaseLock) assignTerm(ctx context.Context, record *resourcelock.LeaderElectionRecord) error {
	term := max(int64(record.LeaderTransitions), l.leadership.Term(), 1)
	if l.terms != nil && record.HolderIdentity != "" && term > l.claimedTerm {
		ctx, cancel := context.WithTimeout(ctx, l.leadership.deadline/2)
		defer cancel()
		claimed, err := l.terms.Claim(ctx, term)
		if err != nil {
			return fmt.Errorf("claim a term: %w", err)
		}
		l.claimedTerm = claimed
	}
	record.LeaderTransitions = int(max(term, l.claimedTerm))
	return nil
}

// newestTerm returns the newest term that any process has claimed.
func (l *leaseLock) newestTerm(ctx context.Context) (int64, error) {
	if l.terms == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.leadership.deadline/2)
	defer cancel()
	newest, err := l.terms.Newest(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the newest term: %w", err)
	}
	return newest, nil
}
