package migrate

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// operatorFinalizers are all finalizers that the Bare Metal Operator sets on objects of the group, with
// the package of metal3-apiserver that removes them when their work is done. The other kinds have none.
//
// A finalizer that nothing removes is left out of what is imported: the object could never be deleted.
// Finalizers of anybody else are imported, because whoever has set them removes them.
var operatorFinalizers = []struct{ resource, finalizer, removedBy string }{
	{"baremetalhosts", v1alpha1.BareMetalHostFinalizer, "pkg/ironicsync/drive"},
	{"bmceventsubscriptions", v1alpha1.BMCEventSubscriptionFinalizer, "pkg/ironicsync/subscription"},
	{"dataimages", v1alpha1.DataImageFinalizer, "pkg/ironicsync/dataimage"},
	{"hardwaredata", v1alpha1.HardwareDataFinalizer, "pkg/ironicsync/drive"}, // with that of the host
	// HostClaims are not acted on.
	{"hostclaims", v1alpha1.HostClaimFinalizer, ""},
	// PreprovisioningImages are not acted on. An external builder that is still running sets its finalizer again.
	{"preprovisioningimages", v1alpha1.PreprovisioningImageFinalizer, ""},
	{"preprovisioningimages", v1alpha1.PreprovisioningImageInUseFinalizer, ""},
}

// dropFinalizers removes the finalizers from a custom resource that nothing would remove after the
// import. It returns false if the object was only waiting for these in order to be gone.
func dropFinalizers(kind *Kind, item *unstructured.Unstructured) (remains bool) {
	had := item.GetFinalizers()
	kept := slices.DeleteFunc(slices.Clone(had), func(finalizer string) bool {
		return slices.ContainsFunc(operatorFinalizers, func(known struct{ resource, finalizer, removedBy string }) bool {
			return known.resource == kind.Resource && known.finalizer == finalizer && known.removedBy == ""
		})
	})
	if len(kept) == len(had) {
		return true
	}
	item.SetFinalizers(kept)
	return len(kept) > 0 || item.GetDeletionTimestamp() == nil
}
