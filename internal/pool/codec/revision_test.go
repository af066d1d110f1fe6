package codec

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

func TestRevisionIsReadableJSON(t *testing.T) {
	revision := Revision{
		Strategy: "Sticky", Version: 7, Workers: []RevisionShare{{Worker: "w-0", Version: 6, Jobs: []string{"a", "b"}},
			{Worker: "w-1", Ordinal: 1, Version: 7, Jobs: []string{"c"}}},
		Unassigned: []string{"d"}, Weights: map[string]int32{"b": 5}, Dedicated: []string{"c", "d"},
	}
	text, err := revision.Encode()
	want := `{"strategy":"Sticky","version":7,"workers":[{"name":"w-0","ordinal":0,"version":6,"jobs":["a","b"]},{"name":"w-1","ordinal":1,"version":7,"jobs":["c"]}],` +
		`"unassigned":["d"],"weights":{"b":5},"dedicated":["c","d"]}`
	if err != nil || string(text) != want {
		t.Fatalf("got %s, %v", text, err)
	}
	read, err := DecodeRevision(text)
	if err != nil || !reflect.DeepEqual(read, revision) {
		t.Errorf("read %+v, %v", read, err)
	}
	if shares := fmt.Sprint(revision.Shares()); shares != "[{w-0 0 [a b]} {w-1 1 [c]}]" {
		t.Errorf("shares %s", shares)
	}
	jobs := []assign.Job{{Name: "a", Weight: 1}, {Name: "b", Weight: 5}, {Name: "c", Weight: 1, Dedicated: true},
		{Name: "d", Weight: 1, Dedicated: true}}
	if got := revision.Jobs(); !reflect.DeepEqual(got, jobs) {
		t.Errorf("jobs %v", got)
	}
}

// SetJobAttributes records everything that ParseJobs needs to return the same jobs.
func TestSetJobAttributes(t *testing.T) {
	jobs := []assign.Job{{Name: "a", Weight: 1}, {Name: "b", Weight: 5}, {Name: "c", Weight: 2, Dedicated: true}}
	revision := Revision{Workers: []RevisionShare{{Worker: "w", Jobs: []string{"a", "b"}}}, Unassigned: []string{"c"}}
	revision.SetJobAttributes(jobs)
	if got := revision.Jobs(); !reflect.DeepEqual(got, jobs) || len(revision.Weights) != 2 || len(revision.Dedicated) != 1 {
		t.Errorf("got %v of %+v", got, revision)
	}
}

func TestDecodeRevisionErrors(t *testing.T) {
	for _, c := range []struct {
		reason string
		text   string
		err    string
	}{
		{"nothing", "", "read revision: unexpected end of JSON input"},
		{"of another kind", `{"workers": 3}`, "read revision: json: cannot unmarshal number"},
		{"not packed", `{"packed": "hello"}`, "read revision: unpack: "},
		{"a few bytes that become many", `{"packed": "` + compress(strings.Repeat("0", maxRevisionSize+1)) + `"}`,
			"read revision: unpack: more than 16777216 bytes"},
		{"packed, and not JSON", `{"packed": "` + compress("hello") + `"}`, "read revision: invalid character"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			revision, err := DecodeRevision([]byte(c.text))
			if err == nil || !strings.HasPrefix(err.Error(), c.err) || !reflect.DeepEqual(revision, Revision{}) {
				t.Errorf("got %+v, %v, want %q", revision, err, c.err)
			}
		})
	}
}

// A revision that could not be read again is not stored.
func TestRevisionThatIsTooLongIsNotEncoded(t *testing.T) {
	revision := Revision{Unassigned: []string{strings.Repeat("x", maxRevisionSize-100)}}
	text, err := revision.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeRevision(text); err != nil {
		t.Errorf("as long as it may be: %v", err)
	}
	revision.Unassigned = append(revision.Unassigned, strings.Repeat("y", 100))
	if _, err := revision.Encode(); err == nil {
		t.Error("encoded, and too long to be read")
	}
}

// A revision of any length is read as it was stored, and always encoded to the same bytes.
func TestRevisionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(1, 20, -1)
		revision := Revision{
			Strategy: "Hashed", Algorithm: rapid.IntRange(0, 3).Draw(t, "algorithm"), Version: rapid.Int64().Draw(t, "version"),
			Weights:   rapid.MapOfN(name, rapid.Int32Range(2, maxWeight), 1, 5).Draw(t, "weights"),
			Dedicated: rapid.SliceOfN(name, 1, 5).Draw(t, "dedicated"),
		}
		copies := rapid.SampledFrom([]int{1, 1, 1000}).Draw(t, "copies")
		for n := range copies {
			revision.Workers = append(revision.Workers, RevisionShare{Worker: fmt.Sprint("worker-with-a-name-", n), Ordinal: n, Version: 1,
				Jobs: rapid.SliceOfN(name, 1, 3).Draw(t, "jobs")})
		}
		text, err := revision.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, _ := revision.Encode()
		read, err := DecodeRevision(text)
		if err != nil || !bytes.Equal(text, again) || !reflect.DeepEqual(read, revision) {
			t.Fatalf("read %+v, %v", read, err)
		}
	})
}

// FuzzDecodeRevision reads arbitrary text. A revision that it can read can be written and read again.
func FuzzDecodeRevision(f *testing.F) {
	f.Add([]byte(`{"version": 1, "workers": [{"name": "w", "jobs": ["a"]}]}`))
	f.Add([]byte(`{"packed": "` + compress(`{"version": 2}`) + `"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		revision, err := DecodeRevision(text)
		if err != nil {
			return
		}
		written, err := revision.Encode()
		if err != nil {
			t.Fatal(err)
		}
		read, err := DecodeRevision(written)
		if rewritten, _ := read.Encode(); err != nil || !bytes.Equal(rewritten, written) {
			t.Fatalf("%s becomes %s, %v", written, rewritten, err)
		}
	})
}
