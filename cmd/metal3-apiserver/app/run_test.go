// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// fakeCluster is as much of a kube-apiserver as the server needs to lead: the ConfigMap that says whom to
// trust, the UID of the cluster, and a Lease. There is nothing else, and nothing changes.
type fakeCluster struct {
	configMap *corev1.ConfigMap
	// listed is closed when lists and watches of the ConfigMap may be answered.
	listed chan struct{}

	mu      sync.Mutex
	lease   *coordinationv1.Lease // nil if it does not exist
	version int
	secrets int // how often Secrets were to be listed, which only the leader does
}

func startCluster(t *testing.T) (cluster *fakeCluster, kubeconfig string) {
	t.Helper()
	cluster = &fakeCluster{listed: make(chan struct{})}
	server := httptest.NewTLSServer(cluster)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	cluster.configMap = &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication", ResourceVersion: "1"},
		Data: map[string]string{
			"client-ca-file": string(ca), "requestheader-client-ca-file": string(ca), "requestheader-allowed-names": "[]",
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["fake"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
	config.Contexts["fake"] = &clientcmdapi.Context{Cluster: "fake"}
	config.CurrentContext = "fake"
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return cluster, kubeconfig
}

// holder returns whose the Lease is, and its count.
func (c *fakeCluster) holder() (identity, count string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease == nil {
		return "", ""
	}
	return ptr.Deref(c.lease.Spec.HolderIdentity, ""), c.lease.Annotations["metal3.io/etcd-count"]
}

// terms returns how often the leader's work has begun to list Secrets.
func (c *fakeCluster) terms() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.secrets
}

// ServeHTTP answers the requests of the server.
func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, obj any) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(obj) // the client may have gone
	}
	refuse := func(code int32, reason metav1.StatusReason) {
		answer(int(code), metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason})
	}
	if strings.HasSuffix(r.URL.Path, "/configmaps") {
		select {
		case <-c.listed:
		case <-r.Context().Done():
			return
		}
		if r.URL.Query().Has("sendInitialEvents") {
			refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid) // then it lists
			return
		}
		if r.URL.Query().Has("watch") {
			w.Header().Set("Content-Type", runtime.ContentTypeJSON)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		answer(http.StatusOK, corev1.ConfigMapList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.ConfigMap{*c.configMap},
		})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch leases := "/leases"; {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, leases), r.Method == http.MethodPut && strings.Contains(r.URL.Path, leases+"/"):
		body, _ := io.ReadAll(r.Body)
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		lease, ok := obj.(*coordinationv1.Lease)
		if err != nil || !ok {
			refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		if c.lease != nil && lease.ResourceVersion != c.lease.ResourceVersion {
			refuse(http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		c.version++
		lease.ResourceVersion = strconv.Itoa(c.version)
		lease.APIVersion, lease.Kind = "coordination.k8s.io/v1", "Lease"
		c.lease = lease
		answer(http.StatusOK, lease)
	case r.Method != http.MethodGet:
		refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	case strings.Contains(r.URL.Path, leases+"/") && c.lease != nil:
		answer(http.StatusOK, c.lease)
	case strings.HasSuffix(r.URL.Path, "/configmaps/"+c.configMap.Name):
		answer(http.StatusOK, c.configMap)
	case strings.HasSuffix(r.URL.Path, "/namespaces/"+metav1.NamespaceSystem):
		answer(http.StatusOK, corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster"}})
	default:
		if strings.HasSuffix(r.URL.Path, "/secrets") {
			c.secrets++
		}
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// TestRunAndStop checks that a server leads once it serves, and that SIGTERM stops everything: the Lease is
// released after the last count, and the server then lets another one begin with its etcd.
func TestRunAndStop(t *testing.T) {
	cluster, kubeconfig := startCluster(t)
	close(cluster.listed)
	dir := t.TempDir()
	for _, want := range []struct{ started, stopped string }{{"1", "2"}, {"3", "4"}} { // the counts
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		port, before := freePort(t), cluster.terms()
		cmd := exec.CommandContext(ctx, os.Args[0],
			"--ironic-endpoint=http://127.0.0.1:1", "--data-dir="+filepath.Join(dir, "data"), "--cert-dir="+filepath.Join(dir, "certs"),
			"--bind-address=127.0.0.1", "--secure-port="+port, "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
		cmd.Env = append(os.Environ(), runAsCommand+"=yes")
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
			identity, _ := cluster.holder()
			return identity != "", nil
		})
		if err == nil {
			if connection, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port)); err != nil {
				t.Errorf("it leads before it serves: %v", err)
			} else {
				_ = connection.Close()
			}
			err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
				_, counted := cluster.holder()
				return counted == want.started && cluster.terms() > before, nil // a term that is stopped while it begins has written nothing, and does not count
			})
		}
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("it does not lead: %s", output.String())
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("stopped with %v: %s", err, output.String())
		}
		if holder, counted := cluster.holder(); holder != "" || counted != want.stopped {
			t.Errorf("after the stop, the Lease is held by %q and has the count %s, want nobody and %s: %s", holder, counted, want.stopped, output.String())
		}
		if ends := strings.Index(output.String(), "This replica no longer leads"); ends < strings.Index(output.String(), "This replica leads") {
			t.Errorf("it does not say that it leads, and no longer: %s", output.String())
		}
	}
}

// freePort returns a port on which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
