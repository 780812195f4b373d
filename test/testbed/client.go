// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Client is how one user connects to a server: from Go programs, with kubectl, and with any other
// program that uses a kubeconfig.
type Client struct {
	// Config has no client-side rate limit.
	Config *rest.Config
	// Kubeconfig is the path of the kubeconfig file.
	Kubeconfig string

	kubectl string
	cache   string
	// enter is what a command begins with, if kubectl runs in another network.
	enter []string
}

// newClient writes the kubeconfig dir/name.kubeconfig.
func newClient(dir, name, kubectl, server string, ca []byte, pair keyPair) (*Client, error) {
	kubeconfig := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"testbed": {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: pair.cert, ClientKeyData: pair.key}},
		Contexts:       map[string]*clientcmdapi.Context{"testbed": {Cluster: "testbed", AuthInfo: name}},
		CurrentContext: "testbed",
	}
	path := filepath.Join(dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfig, path); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(kubeconfig, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return &Client{Config: config, Kubeconfig: path, kubectl: kubectl, cache: filepath.Join(dir, name+".cache")}, nil
}

// Kubectl runs bin/kubectl as this user. Its error contains what kubectl printed on stderr.
func (c *Client) Kubectl(ctx context.Context, stdin string, args ...string) (stdout, stderr string, err error) {
	cmd := c.KubectlCommand(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), errOut.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), errOut.String(), nil
}

// KubectlCommand returns a kubectl command for the caller to start, such as `get --watch`. It is
// killed when ctx ends.
func (c *Client) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	command := slices.Concat(c.enter, []string{c.kubectl}, args)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	// With its own discovery cache and without preferences, it neither reads nor writes the user's home directory.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "KUBECACHEDIR="+c.cache, "KUBERC=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Minute
	return cmd
}

// fileName converts a user name to the name of a file.
func fileName(user string) string {
	return strings.NewReplacer("/", "_", ":", "_").Replace(user)
}
