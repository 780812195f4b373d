// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	ironicv1alpha1 "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

// InstallIronicGroup makes the server also serve the group of the Ironics and of what is in them
// beside the hosts. The keys of storage are the names of resources.
func InstallIronicGroup(server *genericapiserver.GenericAPIServer, storage map[string]rest.Storage) error {
	group := genericapiserver.NewDefaultAPIGroupInfo(ironicv1alpha1.GroupName, Scheme, metav1.ParameterCodec, Codecs)
	group.NegotiatedSerializer = newJSONAndYAML(group.NegotiatedSerializer, 0) // it has no hosts
	group.VersionedResourcesStorageMap[ironicv1alpha1.SchemeGroupVersion.Version] = storage
	return server.InstallAPIGroup(&group)
}
