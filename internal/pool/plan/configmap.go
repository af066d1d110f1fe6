package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

const (
	// maxFileSize limits the length of the file in a ConfigMap, which the API server accepts up to 1 MiB.
	maxFileSize = 900 << 10
	// maxLedgerSize leaves room for the other annotations, which the API server limits to 256 KiB in total.
	maxLedgerSize = 240 << 10
)

// ConfigMap is a ConfigMap with its content: the file of all workers, or of one.
type ConfigMap struct {
	Object         *corev1.ConfigMap // may be from the cache: it must not be modified
	File           codec.File
	Ledger         codec.Ledger
	Modified       bool  // another writer has changed it, or it cannot be read
	Err            error // why it cannot be read
	ContentDropped bool  // its content has to be read again

	FencedTerm int64 // the term in which this leader has raised its fence; 0 for none
}

// ParseConfigMap returns the content of a ConfigMap. Content that differs from what we write counts as modified.
func ParseConfigMap(object *corev1.ConfigMap, key string) *ConfigMap {
	cm := &ConfigMap{Object: object}
	text, ledger := object.Data[key], object.Annotations[v1alpha1.AnnotationLedger]
	var fileErr, ledgerErr error
	cm.File, fileErr = codec.ParseFile(text)
	cm.Ledger, ledgerErr = codec.DecodeLedger(ledger)
	cm.Err = errors.Join(fileErr, ledgerErr)
	cm.Modified = !sanitizeFile(&cm.File, cm.Ledger) || cm.Err != nil ||
		object.Annotations[v1alpha1.AnnotationChecksum] != checksum(text, ledger)
	return cm
}

// Render returns the ConfigMap with new content, or a problem if it is too large.
func (c *ConfigMap) Render(pool *v1alpha1.WorkerPool, fence int64) (*corev1.ConfigMap, *Problem) {
	text := c.File.String()
	ledger, err := c.Ledger.Encode()
	switch {
	case err != nil:
		return nil, NewProblem(v1alpha1.ReasonConfigTooLarge, "%v", err)
	case len(text) > maxFileSize, len(ledger) > maxLedgerSize:
		return nil, NewProblem(v1alpha1.ReasonConfigTooLarge,
			"ConfigMap %q would have %d bytes for workers and %d to remember, and %d and %d are the most: use config.layout PerWorker, shorter names, or several pools",
			c.Object.Name, len(text), len(ledger), maxFileSize, maxLedgerSize)
	}
	object := c.Object.DeepCopy()
	metav1.SetMetaDataLabel(&object.ObjectMeta, v1alpha1.LabelPool, pool.Name)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationFence, strconv.FormatInt(fence, 10))
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationLedger, ledger)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationChecksum, checksum(text, ledger))
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	object.Data[pool.Spec.Config.Key] = text
	return object, nil
}

// GrantsJobs reports whether a worker may hold a job according to the ConfigMap.
func (c *ConfigMap) GrantsJobs() bool {
	for _, entry := range c.File.Workers {
		if len(entry.Jobs) > 0 {
			return true
		}
	}
	for _, ledgerEntry := range c.Ledger {
		if len(ledgerEntry.Earlier) > 0 {
			return true
		}
	}
	return false
}

// Placeholder returns a ConfigMap without a file. A sound one shows that nothing was ever published in it. Any other counts as changed by
// another writer, so that a reader restores the config.
func Placeholder(pool *v1alpha1.WorkerPool, name string, valid bool) *corev1.ConfigMap {
	object := NewConfigMap(pool, name).Object
	metav1.SetMetaDataLabel(&object.ObjectMeta, v1alpha1.LabelPool, pool.Name)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationFence, strconv.FormatInt(NextFence(0), 10))
	if valid {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationChecksum, checksum("", ""))
	}
	return object
}

// Fence returns the last fence that was raised.
func (c *ConfigMap) Fence() int64 {
	fence, _ := strconv.ParseInt(c.Object.Annotations[v1alpha1.AnnotationFence], 10, 64) // 0 if missing
	return fence
}

// NextFence returns a number that differs from the stored one, which is sufficient for a fence: an update without changes would not
// change the resource version. Any user who may write to the ConfigMap may have stored any number.
func NextFence(fence int64) int64 {
	if !IsPlausible(fence) {
		return 1
	}
	return fence + 1
}

// InheritFence keeps what is known of the former version of a ConfigMap. A different fence was raised by another leader.
func (c *ConfigMap) InheritFence(previous *ConfigMap) *ConfigMap {
	if previous != nil && previous.Object.UID == c.Object.UID && previous.Fence() == c.Fence() {
		c.FencedTerm = previous.FencedTerm
	}
	return c
}

// IsOlderThan reports whether the ConfigMap is older than another of the same name.
func (c *ConfigMap) IsOlderThan(other *corev1.ConfigMap) bool {
	order, err := resourceversion.CompareResourceVersion(c.Object.ResourceVersion, other.ResourceVersion)
	return err != nil || order < 0 || c.Object.UID != other.UID
}

func checksum(text, ledger string) string {
	hash := sha256.New()
	for _, part := range []string{text, "\x00", ledger} {
		_, _ = hash.Write([]byte(part)) // never fails
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
