// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
)

const (
	// workers is the number of hosts whose BMC answers.
	workers = 3
	// unreachable is the name of the host whose BMC does not answer.
	unreachable        = "openshift-master-0"
	unreachableAddress = "ipmi://192.0.2.221"

	user, password = "admin", "password"
)

// host describes a BareMetalHost to create, with its Secret.
type host struct {
	name, address, mac string
	consumer           string
	// unplugged is set if its BMC does not answer.
	unplugged bool
}

func worker(n int, address string) host {
	return host{name: fmt.Sprintf("openshift-worker-%d", n), address: address, mac: fmt.Sprintf("00:ab:4f:d8:9e:%02x", 0xfa+n)}
}

func unpluggedHost(address string) host {
	return host{name: unreachable, address: address, mac: "00:ab:4f:d8:9e:f0", consumer: "kni-master-0", unplugged: true}
}

func (h host) path(dir string) string { return filepath.Join(dir, h.name+".yaml") }

func (h host) yaml() string {
	encoded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Secret
metadata: {name: %[1]s-bmc-secret}
type: Opaque
data: {username: %[2]s, password: %[3]s}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: %[1]s}
spec:
  online: true
  bmc:
    address: %[4]s
    credentialsName: %[1]s-bmc-secret
  bootMACAddress: %[5]s
`, h.name, encoded(user), encoded(password), h.address, h.mac)
	if h.consumer != "" {
		fmt.Fprintf(&b, "  consumerRef: {apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, namespace: %s, name: %s}\n", namespace, h.consumer)
	}
	return b.String()
}
