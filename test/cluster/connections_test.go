// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// checkConnections compares the connections of the server's pods with what the NetworkPolicies allow, which nothing enforces here.
func (i *installation) checkConnections() {
	i.t.Helper()
	pod := i.pods()[0]
	list, err := i.core.NetworkingV1().NetworkPolicies(namespace).List(i.ctx, metav1.ListOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
	allowedIn, allowedOut := map[int]bool{}, map[int]bool{}
	for _, policy := range list.Items {
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			i.t.Fatal(err)
		}
		if !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		for _, rule := range policy.Spec.Ingress {
			addPorts(allowedIn, rule.Ports)
		}
		for _, rule := range policy.Spec.Egress {
			addPorts(allowedOut, rule.Ports)
		}
	}
	for _, pid := range i.processes() {
		in, out, err := connections(pid)
		if err != nil {
			i.t.Fatal(err)
		}
		for port := range in {
			if !allowedIn[port] {
				i.t.Errorf("the server listens on port %d, and the policies allow %v", port, slices.Sorted(maps.Keys(allowedIn)))
			}
		}
		if len(out) == 0 {
			i.t.Error("the server has no connections")
		}
		for port := range out {
			if !allowedOut[port] {
				i.t.Errorf("the server connects to port %d, and the policies allow %v", port, slices.Sorted(maps.Keys(allowedOut)))
			}
		}
	}
}

func addPorts(ports map[int]bool, rules []networkingv1.NetworkPolicyPort) {
	for _, rule := range rules {
		ports[rule.Port.IntValue()] = true
	}
}

// processes returns the process IDs of the servers in the pods.
func (i *installation) processes() (pids []int) {
	i.t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		i.t.Fatal(err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(content, []byte("/metal3-apiserver\x00--secure-port")) {
			continue // it has ended, or is another one
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			i.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		i.t.Fatal("no server runs")
	}
	return pids
}

// connections returns the ports to which others can connect in the network of a process, and those of others to which there are
// connections. Those of the loopback interface are left out.
func connections(pid int) (in, out map[int]bool, err error) {
	in, out = map[int]bool{}, map[int]bool{}
	var lines []string
	for _, table := range []string{"tcp", "tcp6"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			return nil, nil, err
		}
		lines = append(lines, strings.Split(string(content), "\n")[1:]...)
	}
	const established, listening = "01", "0A"
	for _, state := range []string{listening, established} {
		for _, line := range lines {
			fields := strings.Fields(line) // number, local address, remote address, state
			if len(fields) < 4 || fields[3] != state || isLoopback(fields[1]) {
				continue
			}
			local, remote := portOf(fields[1]), portOf(fields[2])
			switch {
			case state == listening:
				in[local] = true
			case !in[local]:
				out[remote] = true
			}
		}
	}
	return in, out, nil
}

// isLoopback reports whether an address of /proc/net/tcp, with its bytes in the order of the machine, is of the loopback interface.
func isLoopback(address string) bool {
	host, _, _ := strings.Cut(address, ":")
	return strings.HasSuffix(host, "7F") && len(host) == 8 || host == "00000000000000000000000001000000" || strings.HasSuffix(host, "FFFF00000100007F")
}

func portOf(address string) int {
	_, port, _ := strings.Cut(address, ":")
	number, err := strconv.ParseInt(port, 16, 32)
	if err != nil {
		panic(err) // the kernel writes it
	}
	return int(number)
}
