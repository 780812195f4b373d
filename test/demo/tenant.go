// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
)

const (
	tenant          = "ann"
	tenantNamespace = "team-blue"
)

// tenantManifest is what docs/tutorials/tenants.md creates for tenants.
const tenantManifest = `apiVersion: v1
kind: Namespace
metadata: {name: ` + tenantNamespace + `}
---
apiVersion: metal3.io/v1alpha1
kind: HostDeployPolicy
metadata: {name: teams, namespace: ` + namespace + `}
spec:
  hostClaimNamespaces: {names: [` + tenantNamespace + `]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: metal3-apiserver-secret-copies, namespace: ` + namespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metal3-apiserver-secret-copies}
subjects: [{kind: ServiceAccount, name: metal3-apiserver, namespace: metal3-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: claims, namespace: ` + tenantNamespace + `}
rules:
- apiGroups: [metal3.io]
  resources: [hostclaims]
  verbs: [get, list, watch, create, update, patch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: claims, namespace: ` + tenantNamespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: claims}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: ` + tenantNamespace + `}]
`

// addTenant creates a user who may claim hosts, and sees neither them nor the passwords of BMCs.
func (d *demo) addTenant(ctx context.Context) error {
	path := filepath.Join(d.dir, "tenant.yaml")
	if err := os.WriteFile(path, []byte(tenantManifest), 0o600); err != nil {
		return err
	}
	if err := d.show(ctx, "create", "-f", path); err != nil {
		return err
	}
	var err error
	if d.tenant, err = d.kube.ClientFor(tenant, tenantNamespace); err != nil {
		return err
	}
	_, _, err = d.tenant.Kubectl(ctx, "", "config", "set-context", "--current", "--namespace="+tenantNamespace)
	return err
}
