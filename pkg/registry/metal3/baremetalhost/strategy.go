// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/klog/v2"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/bmo"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

// strategy controls how clients create and update hosts: they can write the spec and the metadata,
// but not the status.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	// namespaces are those in which hosts can be created; empty means all.
	namespaces []string
}

func newStrategy(typer runtime.ObjectTyper) strategy {
	return strategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator}
}

func (strategy) NamespaceScoped() bool { return true }

func (strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetFields(metal3.SchemeGroupVersion, "status")
}

func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	host := obj.(*metal3.BareMetalHost)
	host.Status = metal3.BareMetalHostStatus{}
	host.Generation = 1
}

func (strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	host, oldHost := obj.(*metal3.BareMetalHost), old.(*metal3.BareMetalHost)
	host.Status = oldHost.Status
	// All hosts are held when the Bare Metal Operator writes the status of one, so who has written it is not up to whoever
	// may write managedFields.
	keepManagers(host, oldHost, func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource == "status" })
	if !isSameSpec(&host.Spec, &oldHost.Spec) {
		host.Generation = oldHost.Generation + 1
	}
	if host.Spec.Online != oldHost.Spec.Online {
		// Recorded here, because spec.online may be changed back before the leader has seen it.
		host.Status.Record.Deployment = host.Status.Record.Deployment.DeepCopy()
		lifecycle.CountOnline(host)
	}
	if host.Spec.Online && !oldHost.Spec.Online {
		host.Status.Record.PowerCut = nil // the next time that it is to be off, it may be asked to shut down
	}
	lifecycle.ShowPower(host, &host.Status, time.Now()) // whoever sees this change relies on what it shows
}

// isSameSpec tells null from [], as a CRD does: in spec.raid, [] has volumes deleted that null leaves alone.
func isSameSpec(a, b *metal3.BareMetalHostSpec) bool {
	if !equality.Semantic.DeepEqual(a, b) {
		return false
	}
	before, errBefore := json.Marshal(a)
	after, errAfter := json.Marshal(b)
	return errBefore == nil && errAfter == nil && bytes.Equal(before, after)
}

// keepManagers takes over the given entries of managedFields from the stored host.
func keepManagers(host, stored *metal3.BareMetalHost, given func(metav1.ManagedFieldsEntry) bool) {
	others := func(entry metav1.ManagedFieldsEntry) bool { return !given(entry) }
	kept := slices.DeleteFunc(slices.Clone(stored.ManagedFields), others)
	if written := slices.DeleteFunc(slices.Clone(host.ManagedFields), others); !equality.Semantic.DeepEqual(written, kept) {
		host.ManagedFields = append(slices.DeleteFunc(slices.Clone(host.ManagedFields), given), kept...)
	}
}

func (s strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	host := obj.(*metal3.BareMetalHost)
	all := validation.ValidateBareMetalHost(host)
	if len(s.namespaces) > 0 && !slices.Contains(s.namespaces, host.Namespace) {
		all = append(all, field.Forbidden(field.NewPath("metadata", "namespace"),
			"hosts of this namespace are not managed: this installation restricts hosts to certain namespaces (flag --namespaces)"))
	}
	return kind.FirstErrors(all)
}

func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return kind.FirstErrors(validation.ValidateBareMetalHostUpdate(obj.(*metal3.BareMetalHost), old.(*metal3.BareMetalHost)))
}

func (strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return validation.Warnings(obj.(*metal3.BareMetalHost))
}

// WarningsOnUpdate also warns of credentials in image URLs, which are accepted only if the host has had
// them before.
func (strategy) WarningsOnUpdate(_ context.Context, obj, _ runtime.Object) []string {
	return validation.Warnings(obj.(*metal3.BareMetalHost))
}

func (strategy) Canonicalize(runtime.Object) {}

// As with the CRD, a PUT can neither create a host nor overwrite one without a resourceVersion.
func (strategy) AllowCreateOnUpdate(context.Context) bool      { return false }
func (strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// statusStrategy controls how clients write hosts through /status: only the status can be changed.
type statusStrategy struct {
	strategy
	// authorizer knows who may write the statuses of all hosts. Nil permits everything.
	authorizer authorizer.Authorizer
}

func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return kind.ResetFields(metal3.SchemeGroupVersion, "spec", "metadata")
}

func (s statusStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	host, oldHost := obj.(*metal3.BareMetalHost), old.(*metal3.BareMetalHost)
	status, managed := host.Status, host.ManagedFields
	oldHost.DeepCopyInto(host)
	host.Status, host.ManagedFields = status, managed
	if bmo.WritesStatus(oldHost, host) && !s.mayBeOperator(ctx) {
		keepManagers(host, oldHost, func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager == bmo.Name && entry.Subresource == "status"
		})
	}
	if len(s.ValidateUpdate(ctx, host, oldHost)) == 0 { // otherwise it is refused
		keepWhatDecides(&host.Status, oldHost.Status.DeepCopy())
		if !equality.Semantic.DeepEqual(host.Status, oldHost.Status) {
			host.Status.LastUpdated = lifecycle.StatusTime(time.Now())
		}
	}
}

// mayBeOperator reports whether the user of a request may write the statuses of all hosts, as the Bare Metal Operator may.
// Everybody can use its name, and has all hosts of all namespaces held if that is believed.
func (s statusStrategy) mayBeOperator(ctx context.Context) bool {
	if s.authorizer == nil {
		return true
	}
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return false
	}
	decision, _, err := s.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: "update", APIGroup: metal3.GroupName, APIVersion: metal3.SchemeGroupVersion.Version,
		Resource: "baremetalhosts", Subresource: "status", ResourceRequest: true,
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Whether the Bare Metal Operator has written a status is not known, and it does not count as at work", "user", user.GetName())
	}
	return decision == authorizer.DecisionAllow
}

// keepWhatDecides takes over from the stored status all by which the server decides what is done to a machine: what it is
// said to run, which node it has, what was asked of Ironic, which disk is the root device, or since when Ironic is at work.
// The permission to write a status must not include any of that: a lie would have a machine undeployed and its disks
// erased, or would have another controller believe that it is off. What is left can be written, because nothing is concluded
// from it, as the tests show, except that lower counts of errors have the server try again, and higher ones have it wait
// longer, or provision no more, and that retry can have Ironic told a password again.
// A host that has no node or no hardware yet can be given either: a node must then be proven to be the host's.
func keepWhatDecides(status, stored *metal3.BareMetalHostStatus) {
	if stored.Provisioning.ID == "" {
		stored.Provisioning.ID = status.Provisioning.ID
	}
	if stored.HardwareDetails == nil {
		stored.HardwareDetails = status.HardwareDetails
	}
	written := *status
	*status = *stored
	status.Conditions = written.Conditions
	keepReachable(&status.Conditions, stored.Conditions)
	if stored.OperationalStatus != metal3.OperationalStatusDetached && written.OperationalStatus != metal3.OperationalStatusDetached {
		status.OperationalStatus = written.OperationalStatus
	}
	status.ErrorType, status.ErrorMessage = written.ErrorType, written.ErrorMessage
	status.ErrorCount, status.ProvisioningFailCount = written.ErrorCount, written.ProvisioningFailCount
	if written.TriedCredentials.Version == "" && mayHaveFormerPassword(stored) {
		status.TriedCredentials.Version = ""
	}
	if status.ErrorCount == 0 { // then giving up, which counts the machine's own errors, is as far away
		status.Record.MachineErrors = 0
	}
}

// keepReachable keeps what is recorded of whether Ironic answers. A GET also shows what is not recorded (see showSilence), which whoever
// writes back what they have read would have all informers show.
func keepReachable(conditions *[]metav1.Condition, stored []metav1.Condition) {
	kept := meta.FindStatusCondition(stored, metal3.IronicReachableCondition)
	*conditions = slices.Clone(*conditions)
	at := slices.IndexFunc(*conditions, func(c metav1.Condition) bool { return c.Type == metal3.IronicReachableCondition })
	switch {
	case kept != nil && at >= 0:
		(*conditions)[at] = *kept // in its place: what is written back as it was read is no write
	case kept != nil:
		*conditions = append(*conditions, *kept)
	case at >= 0:
		*conditions = slices.Delete(*conditions, at, at+1)
	}
}

func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return kind.FirstErrors(validation.ValidateBareMetalHostStatusUpdate(obj.(*metal3.BareMetalHost), old.(*metal3.BareMetalHost)))
}

// attributes returns the labels and fields by which selectors can select hosts. The fields are
// those that metal3.BareMetalHostFieldLabels permits.
func attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	host, ok := obj.(*metal3.BareMetalHost)
	if !ok {
		return nil, nil, fmt.Errorf("not a BareMetalHost: %T", obj)
	}
	set := generic.ObjectMetaFieldsSet(&host.ObjectMeta, true)
	set["status.provisioning.state"] = string(host.Status.Provisioning.State)
	set["status.operationalStatus"] = string(host.Status.OperationalStatus)
	set["status.poweredOn"] = strconv.FormatBool(host.Status.PoweredOn)
	set["status.ironic.instance"] = ironicInstance(host.Status.Ironic)
	set["spec.online"] = strconv.FormatBool(host.Spec.Online)
	set["spec.bmc.address"] = host.Spec.BMC.Address
	set["spec.consumerRef.name"] = ""
	if host.Spec.ConsumerRef != nil {
		set["spec.consumerRef.name"] = host.Spec.ConsumerRef.Name
	}
	return host.Labels, set, nil
}

func predicate(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributes}
}
