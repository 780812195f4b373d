// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// workers is the number of hosts whose BMC answers, unless HOSTS is set.
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
	// rack is the label with this key, if it is set.
	rack string
	// unplugged is set if its BMC does not answer.
	unplugged bool
	// refused is set if its Secret does not have the BMC's password.
	refused bool
}

func worker(n int, address string) host {
	return host{name: fmt.Sprintf("openshift-worker-%d", n), address: address, mac: fmt.Sprintf("00:ab:4f:d8:9e:%02x", 0xfa+n)}
}

func unpluggedHost(address string) host {
	return host{name: unreachable, address: address, mac: "00:ab:4f:d8:9e:f0", consumer: "kni-master-0", unplugged: true}
}

// inRacks returns as many hosts as HOSTS says, ten in a rack. The BMC of one refuses the password.
func inRacks(number string) ([]host, error) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 10 || n > 1000 {
		return nil, fmt.Errorf("HOSTS=%s: must be a number from 10 to 1000", number)
	}
	all := make([]host, n)
	for i := range all {
		rack, unit := i/10+1, i%10+1
		all[i] = host{
			name: fmt.Sprintf("r%d-u%02d", rack, unit), rack: fmt.Sprintf("r%d", rack),
			address: fmt.Sprintf("redfish://10.0.%d.%d", rack, unit), mac: fmt.Sprintf("00:ab:4f:d8:%02x:%02x", rack, unit),
		}
	}
	all[n/2].refused = true
	return all, nil
}

// fails reports whether Ironic does not get access to its BMC.
func (h host) fails() bool { return h.unplugged || h.refused }

// path returns the path of its manifest. All of them are in one folder.
func (h host) path(dir string) string { return filepath.Join(dir, h.name+".yaml") }

func (h host) yaml() string {
	encoded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	secret, labels := password, ""
	if h.refused {
		secret = "wrong"
	}
	if h.rack != "" {
		labels = fmt.Sprintf(", labels: {rack: %s}", h.rack)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Secret
metadata: {name: %[1]s-bmc-secret}
type: Opaque
data: {username: %[2]s, password: %[3]s}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: %[1]s%[6]s}
spec:
  online: true
  bmc:
    address: %[4]s
    credentialsName: %[1]s-bmc-secret
  bootMACAddress: %[5]s
`, h.name, encoded(user), encoded(secret), h.address, h.mac, labels)
	if h.consumer != "" {
		fmt.Fprintf(&b, "  consumerRef: {apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, namespace: %s, name: %s}\n", namespace, h.consumer)
	}
	return b.String()
}
