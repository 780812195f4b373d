// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"
)

// The watch cache keeps the versions that were replaced or deleted in the last 75 s, and the last 100 of each kind however old they
// are, so that watches can be resumed. It counts versions, not bytes: 40 changes a second of an object of 700 KB are 2 GB. Flow control
// counts requests, and a request of 50 bytes can replace such an object, so neither bounds the memory. Budget does.
//
// Current versions do not count, because each is needed, and quotas limit their number: creating objects is free.
const (
	// budgetSlot is the accuracy of the time that a version counts, and how long a client should wait before it tries again.
	budgetSlot = 5 * time.Second
	// budgetSlots cover storagebackend.DefaultEventsHistoryWindow, 75 s, and the slot that has just begun.
	budgetSlots = 16
	// lastVersions is how many versions of a kind the watch cache keeps however old they are (k8s.io/apiserver's
	// defaultLowerBoundCapacity).
	lastVersions = 100
	// ordinaryVersion is the size, in bytes, up to which what the server itself replaces does not count. A host with all that it can
	// have has half of it. Users do not decide how often the server writes, but how large what it writes is.
	ordinaryVersion = 64 << 10
	// maxVersion is how much memory an object that users write may take, in bytes. Its JSON is bounded, but has three bytes of an empty
	// element of a list, which takes 200 when it is decoded, as often as the object is read, changed or copied. What users have reason
	// to write takes little more than twice its JSON, of which 768 KiB are allowed in a FirmwareSchema.
	maxVersion = 3 << 20
	// freeParts is the part of the limit that every namespace may use even if nothing is left of it.
	freeParts = 64
)

// Budget bounds what the watch caches keep of former versions. It must be made by NewBudget.
//
// A namespace may have as much there as it leaves free: alone half of the limit, and in the company of n others that want all they
// can get, a part of n+2. So there is always something left for those who write little, without a number for each namespace.
type Budget struct {
	clock clock.PassiveClock
	began time.Time
	limit int64

	mu sync.Mutex
	// slot is the number of the current slot.
	slot int64
	// total and namespaces are what counts, by namespace; "" has what is in none. Those that have nothing are not in the map.
	total      window
	namespaces map[string]*window
	// kinds is how many kinds there are, last the sum of what they have in last, and lastOf what is of each namespace in that.
	kinds  int64
	last   int64
	lastOf map[string]int64
}

// window has the bytes of the last budgetSlots slots, each at its number modulo that.
type window struct {
	slots [budgetSlots]int64
	sum   int64
}

func (w *window) add(slot, bytes int64) {
	w.slots[slot%budgetSlots] += bytes
	w.sum += bytes
}

// advance forgets what is too old in the slot to.
func (w *window) advance(from, to int64) {
	for slot := max(from, to-budgetSlots) + 1; slot <= to; slot++ {
		w.sum -= w.slots[slot%budgetSlots]
		w.slots[slot%budgetSlots] = 0
	}
}

// NewBudget returns a budget of limit bytes for all kinds and namespaces.
func NewBudget(clock clock.PassiveClock, limit int64) *Budget {
	return &Budget{clock: clock, began: clock.Now(), limit: limit, namespaces: map[string]*window{}, lastOf: map[string]int64{}}
}

// now returns the number of the slot. It counts the time that has passed, by Go's monotonic clock: after a wall clock that was ahead is
// corrected, users would be refused until it is as late once more.
func (b *Budget) now() int64 { return int64(b.clock.Since(b.began) / budgetSlot) }

// advance makes now the current slot.
func (b *Budget) advance() {
	now := b.now()
	if now <= b.slot {
		return
	}
	b.total.advance(b.slot, now)
	for name, w := range b.namespaces {
		if w.advance(b.slot, now); w.sum == 0 {
			delete(b.namespaces, name)
		}
	}
	b.slot = now
}

// take has bytes of a namespace count from now on, and returns the slot in which they do; unless they are too many, and not
// taken by the server itself.
func (b *Budget) take(namespace string, bytes int64, byServer bool) (slot int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	var has int64
	w := b.namespaces[namespace]
	if w != nil {
		has = w.sum
	}
	// Who has nothing may replace even a version that is larger than the budget: it could not be deleted otherwise.
	if !byServer && has > 0 && has+bytes > max(b.limit-b.total.sum, b.limit/freeParts) {
		return 0, false
	}
	if bytes == 0 {
		return b.slot, true
	}
	if w == nil {
		w = &window{}
		b.namespaces[namespace] = w
	}
	w.add(b.slot, bytes)
	b.total.add(b.slot, bytes)
	return b.slot, true
}

// giveBack takes back what take did in a slot.
func (b *Budget) giveBack(namespace string, bytes, slot int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	if w := b.namespaces[namespace]; w != nil && b.slot-slot < budgetSlots {
		w.add(slot, -bytes)
		b.total.add(slot, -bytes)
	}
}

// lastOfKind are the sizes of the last versions of a kind, with their namespaces.
type lastOfKind struct {
	versions [lastVersions]sizeIn
	next     int
}

type sizeIn struct {
	namespace string
	bytes     int64
}

// remember has a version of a kind be the last one.
func (b *Budget) remember(kind *lastOfKind, namespace string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	oldest := kind.versions[kind.next]
	b.last += bytes - oldest.bytes
	b.lastOf[namespace] += bytes
	if b.lastOf[oldest.namespace] -= oldest.bytes; b.lastOf[oldest.namespace] == 0 {
		delete(b.lastOf, oldest.namespace)
	}
	kind.versions[kind.next] = sizeIn{namespace, bytes}
	kind.next = (kind.next + 1) % lastVersions
}

// tooLarge reports whether a version of this size must not become one of the last, because these take as much as they may already. They
// stay until others of the kind are changed, which can take weeks, so that a namespace that has little among them is not refused.
// One that is no larger than an equal share of the limit always may.
func (b *Budget) tooLarge(namespace string, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last > b.limit && bytes > b.limit/(b.kinds*lastVersions) && b.lastOf[namespace]+bytes > b.limit/freeParts
}

// Budgeted returns options of stores with a budget for what their watch caches keep. Users' writes beyond it are answered 429. What
// the server itself writes is never refused, but counts if it is large.
func Budgeted(options generic.RESTOptionsGetter, budget *Budget) generic.RESTOptionsGetter {
	return wrapped{options, func(inner storage.Interface) storage.Interface {
		if watchCacheIn(inner) == nil {
			return inner
		}
		budget.mu.Lock()
		defer budget.mu.Unlock()
		budget.kinds++
		return budgetedStorage{inner, budget, &lastOfKind{}}
	}}
}

type budgetedStorage struct {
	storage.Interface
	budget *Budget
	last   *lastOfKind
}

// Unwrap returns the storage to which the budget applies.
func (s budgetedStorage) Unwrap() storage.Interface { return s.Interface }

// Create creates an object. It replaces nothing, but is refused while too much is kept: what exists can be replaced or deleted later.
func (s budgetedStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	replaced := replacement{budgetedStorage: s, byServer: isByServer(ctx)}
	size := weigh(obj)
	if err := replaced.checkSize(size, 0); err != nil {
		return err
	}
	if err := replaced.take(obj, size, 0); err != nil {
		return err
	}
	return s.Interface.Create(ctx, key, obj, out, ttl)
}

// GuaranteedUpdate updates an object.
func (s budgetedStorage) GuaranteedUpdate(ctx context.Context, key string, into runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, existing runtime.Object,
) error {
	replaced := replacement{budgetedStorage: s, byServer: isByServer(ctx)}
	err := s.Interface.GuaranteedUpdate(ctx, key, into, ignoreNotFound, preconditions,
		func(stored runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
			size := weigh(stored)
			if err := replaced.take(stored, size, size); err != nil {
				return nil, nil, err
			}
			updated, ttl, err := update(stored, meta)
			if err == nil {
				err = replaced.checkSize(weigh(updated), size)
			}
			return updated, ttl, err
		}, existing)
	// If nothing has changed, nothing was written.
	replaced.end(err == nil && versionOf(into) != replaced.version)
	return err
}

// Delete deletes an object. The event of that has a copy of it.
func (s budgetedStorage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, existing runtime.Object, options storage.DeleteOptions,
) error {
	replaced := replacement{budgetedStorage: s, byServer: isByServer(ctx)}
	err := s.Interface.Delete(ctx, key, out, preconditions,
		func(ctx context.Context, stored runtime.Object) error {
			// However large it is: what cannot be changed any more can still be deleted.
			if err := replaced.take(stored, 0, 2*weigh(stored)); err != nil {
				return err
			}
			return validate(ctx, stored)
		}, existing, options)
	replaced.end(err == nil)
	return err
}

// replacement is a version that is about to be replaced.
type replacement struct {
	budgetedStorage
	byServer bool

	// What counts for it already, and where; with what it will be remembered as one of the last; and its resourceVersion.
	namespace     string
	counted, slot int64
	size          int64
	version       string
}

// take has bytes count for a version, instead of what counted for the one that was to be replaced before another client replaced it.
// size is that of a version that will be one of the last of its kind, sooner or later.
func (r *replacement) take(stored runtime.Object, size, bytes int64) error {
	r.end(false)
	namespace := namespaceOf(stored)
	r.size, r.version = bytes, versionOf(stored)
	if r.byServer {
		bytes = max(0, bytes-ordinaryVersion)
	} else if r.budget.tooLarge(namespace, size) {
		return tooMuchKept("objects of this size cannot be written for now, because too many former versions of large objects are kept for watches: " +
			"make it smaller, or try again later")
	}
	slot, ok := r.budget.take(namespace, bytes, r.byServer)
	if !ok {
		return tooMuchKept(fmt.Sprintf("too much has been changed in namespace %q in the last %s, and is kept in memory for watches: "+
			"try again in some seconds, and change large objects less often", namespace, budgetSlot*(budgetSlots-1)))
	}
	r.namespace, r.counted, r.slot = namespace, bytes, slot
	return nil
}

// checkSize refuses users a version that takes too much memory, unless the one that it replaces took as much.
func (r *replacement) checkSize(size, former int64) error {
	if r.byServer || size <= max(former, maxVersion) {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the object would take %d KiB of memory, and may take %d: it has too many elements, most of which are empty or short",
		size>>10, maxVersion>>10))
}

// end reports whether the version has been replaced.
func (r *replacement) end(done bool) {
	if done {
		r.budget.remember(r.last, r.namespace, r.size)
	} else if r.counted > 0 {
		r.budget.giveBack(r.namespace, r.counted, r.slot)
	}
	r.counted = 0
}

func tooMuchKept(message string) error {
	return apierrors.NewTooManyRequests(message, int(budgetSlot.Seconds()))
}

func namespaceOf(obj runtime.Object) string {
	if accessor, err := meta.Accessor(obj); err == nil {
		return accessor.GetNamespace()
	}
	return ""
}

func versionOf(obj runtime.Object) string {
	if accessor, err := meta.Accessor(obj); err == nil {
		return accessor.GetResourceVersion()
	}
	return ""
}

// serverKey is the key of a context of what the server itself does.
type serverKey struct{}

func byServer(ctx context.Context) context.Context { return context.WithValue(ctx, serverKey{}, true) }

func isByServer(ctx context.Context) bool {
	by, _ := ctx.Value(serverKey{}).(bool)
	return by
}
