package plan

import (
	"fmt"
	"hash/maphash"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// StoredRevision is a stored revision.
type StoredRevision struct {
	Number    int64
	UID       types.UID
	Name      string
	Created   time.Time
	Data      codec.Revision
	Sanitized bool             // one of its versions is ignored
	checksums []uint64         // checksums of the lists, by worker, if the lists themselves are not needed
	Encoded   []byte           // if new
	Index     *assign.Revision // if newest
}

// ParseRevision returns the content of a stored revision, which was decompressed before.
func ParseRevision(object *appsv1.ControllerRevision, raw []byte) (StoredRevision, error) {
	revision := StoredRevision{Number: object.Revision, UID: object.UID, Name: object.Name, Created: object.CreationTimestamp.Time}
	var err error
	revision.Data, err = codec.UnmarshalRevision(raw)
	revision.Sanitized = err == nil && !SanitizeRevision(&revision.Data)
	return revision, err
}

// checksumSeed is the random seed of the checksums, so that collisions cannot be prepared.
var checksumSeed = maphash.MakeSeed()

// CompactLists replaces the lists by their checksums.
func (r *StoredRevision) CompactLists() {
	reduced := codec.Revision{Version: r.Data.Version, Workers: make([]codec.RevisionShare, len(r.Data.Workers))}
	r.checksums = make([]uint64, len(r.Data.Workers))
	for n, share := range r.Data.Workers {
		r.checksums[n] = listChecksum(share.Jobs)
		reduced.Workers[n] = codec.RevisionShare{Worker: share.Worker, Ordinal: share.Ordinal, Version: share.Version}
	}
	r.Data = reduced
}

func listChecksum(jobs []string) uint64 {
	var hash maphash.Hash
	hash.SetSeed(checksumSeed)
	for _, job := range jobs {
		_, _ = hash.WriteString(job) // never fails
		_ = hash.WriteByte(0)
	}
	return hash.Sum64()
}

// ChecksumOf returns the checksum of the list of an ordinal.
func (r StoredRevision) ChecksumOf(ordinal int) (sum uint64, found bool) {
	for n, share := range r.Data.Workers {
		switch {
		case share.Ordinal != ordinal:
			continue
		case r.checksums != nil:
			return r.checksums[n], true
		}
		return listChecksum(share.Jobs), true
	}
	return 0, false
}

// BuildIndex builds the index if there is none.
func (r *StoredRevision) BuildIndex() {
	if r.Index == nil {
		r.Index = assign.Restore(r.Data.Shares(), r.Data.Algorithm)
	}
}

// File returns what workers get when the revision is carried out and no other change comes first.
func (r StoredRevision) File() codec.File {
	file := codec.File{Version: r.Data.Version}
	for _, share := range r.Data.Workers {
		if share.Version > 0 {
			file.Workers = append(file.Workers, codec.FileEntry{Worker: share.Worker, Version: share.Version, Jobs: share.Jobs})
		}
	}
	return file
}

func (r StoredRevision) Ledger() codec.Ledger {
	ledger := codec.Ledger{}
	for _, share := range r.Data.Workers {
		ledger[share.Worker] = codec.LedgerEntry{Ordinal: share.Ordinal}
	}
	return ledger
}

// listVersions returns the lists that each worker got from the revisions starting with a number, and then from the config, oldest first.
func (s Snapshot) listVersions(from int64) []assign.Record {
	index, records := map[string]int{}, []assign.Record{}
	add := func(worker string, ordinal int, version int64, jobs []string) {
		i, exists := index[worker]
		if !exists {
			i = len(records)
			index[worker] = i
			records = append(records, assign.Record{Worker: worker, Ordinal: ordinal})
		}
		records[i] = records[i].WithList(version, jobs)
	}
	for _, revision := range s.History {
		if revision.Number >= from {
			for _, share := range revision.Data.Workers {
				add(share.Worker, share.Ordinal, share.Version, share.Jobs)
			}
		}
	}
	for _, entry := range s.Published.Entries { // of a config that another writer has changed
		add(entry.Worker, s.Published.Ledger[entry.Worker].Ordinal, entry.Version, entry.Jobs)
	}
	return records
}

func RevisionName(pool *v1alpha1.WorkerPool, number int64) string {
	return fmt.Sprintf("%s-%d", pool.Name, number)
}
