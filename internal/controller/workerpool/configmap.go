package workerpool

import (
	"crypto/sha256"
	"encoding/hex"
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

// configMap is a ConfigMap with its content: the file of all workers, or of one.
type configMap struct {
	object         *corev1.ConfigMap // may be from the cache: it must not be modified
	file           codec.File
	ledger         codec.Ledger
	modified       bool // another writer has changed it, or it cannot be read
	contentDropped bool // its content has to be read again

	fencedTerm int64 // the term in which this leader has raised its fence; 0 for none
}

// parseConfigMap returns the content of a ConfigMap. Content that differs from what we write counts as modified.
func parseConfigMap(object *corev1.ConfigMap, key string) *configMap {
	cm := &configMap{object: object}
	text, ledger := object.Data[key], object.Annotations[v1alpha1.AnnotationLedger]
	var errs [2]error
	cm.file, errs[0] = codec.ParseFile(text)
	cm.ledger, errs[1] = codec.DecodeLedger(ledger)
	cm.modified = !sanitizeFile(&cm.file, cm.ledger) || errs[0] != nil || errs[1] != nil ||
		object.Annotations[v1alpha1.AnnotationChecksum] != checksum(text, ledger)
	return cm
}

// render returns the ConfigMap with new content, or a problem if it is too large.
func (c *configMap) render(pool *v1alpha1.WorkerPool, fence int64) (*corev1.ConfigMap, *problem) {
	text := c.file.String()
	ledger, err := c.ledger.Encode()
	switch {
	case err != nil:
		return nil, newProblem(v1alpha1.ReasonConfigTooLarge, "%v", err)
	case len(text) > maxFileSize, len(ledger) > maxLedgerSize:
		return nil, newProblem(v1alpha1.ReasonConfigTooLarge,
			"ConfigMap %q would have %d bytes for workers and %d to remember, and %d and %d are the most: use config.layout PerWorker, shorter names, or several pools",
			c.object.Name, len(text), len(ledger), maxFileSize, maxLedgerSize)
	}
	object := c.object.DeepCopy()
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

// grantsJobs reports whether a worker may hold a job according to the ConfigMap.
func (c *configMap) grantsJobs() bool {
	for _, entry := range c.file.Workers {
		if len(entry.Jobs) > 0 {
			return true
		}
	}
	for _, ledgerEntry := range c.ledger {
		if len(ledgerEntry.Earlier) > 0 {
			return true
		}
	}
	return false
}

// placeholder returns a ConfigMap without a file. A sound one shows that nothing was ever published in it. Any other counts as changed by
// another writer, so that a reader restores the config.
func placeholder(pool *v1alpha1.WorkerPool, name string, valid bool) *corev1.ConfigMap {
	object := newConfigMap(pool, name).object
	metav1.SetMetaDataLabel(&object.ObjectMeta, v1alpha1.LabelPool, pool.Name)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationFence, strconv.FormatInt(nextFence(0), 10))
	if valid {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationChecksum, checksum("", ""))
	}
	return object
}

// fence returns the last fence that was raised.
func (c *configMap) fence() int64 {
	fence, _ := strconv.ParseInt(c.object.Annotations[v1alpha1.AnnotationFence], 10, 64) // 0 if missing
	return fence
}

// nextFence returns a number that differs from the stored one, which is sufficient for a fence: an update without changes would not
// change the resource version. Any user who may write to the ConfigMap may have stored any number.
func nextFence(fence int64) int64 {
	if !isPlausible(fence) {
		return 1
	}
	return fence + 1
}

// inheritFence keeps what is known of the former version of a ConfigMap. A different fence was raised by another leader.
func (c *configMap) inheritFence(previous *configMap) *configMap {
	if previous != nil && previous.object.UID == c.object.UID && previous.fence() == c.fence() {
		c.fencedTerm = previous.fencedTerm
	}
	return c
}

// isOlderThan reports whether the ConfigMap is older than another of the same name.
func (c *configMap) isOlderThan(other *corev1.ConfigMap) bool {
	order, err := resourceversion.CompareResourceVersion(c.object.ResourceVersion, other.ResourceVersion)
	return err != nil || order < 0 || c.object.UID != other.UID
}

func checksum(text, ledger string) string {
	hash := sha256.New()
	for _, part := range []string{text, "\x00", ledger} {
		_, _ = hash.Write([]byte(part)) // never fails
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
